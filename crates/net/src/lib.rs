//! belljar-net
