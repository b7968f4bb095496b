//! belljar-platform
