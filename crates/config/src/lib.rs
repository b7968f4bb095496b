//! belljar-config
