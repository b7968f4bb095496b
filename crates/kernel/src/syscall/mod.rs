//! System calls: the table and one thin file per family. A handler decodes, validates, calls a
//! subsystem and copies out; the logic lives in the subsystem.

pub mod table;
