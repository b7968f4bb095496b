//! belljar-results
