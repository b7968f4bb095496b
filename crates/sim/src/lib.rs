//! belljar-sim
