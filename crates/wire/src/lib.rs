//! belljar-wire
