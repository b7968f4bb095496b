//! belljar-tcp
