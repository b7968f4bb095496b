//! Key management, `keyctl(2)`: operations, special keyring ids and permissions.
#![allow(missing_docs)]

/// Special key ids.
pub const KEY_SPEC_THREAD_KEYRING: i32 = -1;
pub const KEY_SPEC_PROCESS_KEYRING: i32 = -2;
pub const KEY_SPEC_SESSION_KEYRING: i32 = -3;
pub const KEY_SPEC_USER_KEYRING: i32 = -4;
pub const KEY_SPEC_USER_SESSION_KEYRING: i32 = -5;
pub const KEY_SPEC_REQKEY_AUTH_KEY: i32 = -7;
pub const KEY_SPEC_REQUESTOR_KEYRING: i32 = -8;

/// Default destination keyrings of `request_key(2)`.
pub const KEY_REQKEY_DEFL_NO_CHANGE: i32 = -1;
pub const KEY_REQKEY_DEFL_DEFAULT: i32 = 0;
pub const KEY_REQKEY_DEFL_THREAD_KEYRING: i32 = 1;
pub const KEY_REQKEY_DEFL_PROCESS_KEYRING: i32 = 2;
pub const KEY_REQKEY_DEFL_SESSION_KEYRING: i32 = 3;
pub const KEY_REQKEY_DEFL_USER_KEYRING: i32 = 4;
pub const KEY_REQKEY_DEFL_USER_SESSION_KEYRING: i32 = 5;
pub const KEY_REQKEY_DEFL_REQUESTOR_KEYRING: i32 = 7;

/// Operations.
pub const KEYCTL_GET_KEYRING_ID: i32 = 0;
pub const KEYCTL_JOIN_SESSION_KEYRING: i32 = 1;
pub const KEYCTL_UPDATE: i32 = 2;
pub const KEYCTL_REVOKE: i32 = 3;
pub const KEYCTL_CHOWN: i32 = 4;
pub const KEYCTL_SETPERM: i32 = 5;
pub const KEYCTL_DESCRIBE: i32 = 6;
pub const KEYCTL_CLEAR: i32 = 7;
pub const KEYCTL_LINK: i32 = 8;
pub const KEYCTL_UNLINK: i32 = 9;
pub const KEYCTL_SEARCH: i32 = 10;
pub const KEYCTL_READ: i32 = 11;
pub const KEYCTL_INSTANTIATE: i32 = 12;
pub const KEYCTL_NEGATE: i32 = 13;
pub const KEYCTL_SET_REQKEY_KEYRING: i32 = 14;
pub const KEYCTL_SET_TIMEOUT: i32 = 15;
pub const KEYCTL_ASSUME_AUTHORITY: i32 = 16;
pub const KEYCTL_GET_SECURITY: i32 = 17;
pub const KEYCTL_SESSION_TO_PARENT: i32 = 18;
pub const KEYCTL_REJECT: i32 = 19;
pub const KEYCTL_INSTANTIATE_IOV: i32 = 20;
pub const KEYCTL_INVALIDATE: i32 = 21;
pub const KEYCTL_GET_PERSISTENT: i32 = 22;
pub const KEYCTL_RESTRICT_KEYRING: i32 = 29;
pub const KEYCTL_MOVE: i32 = 30;
pub const KEYCTL_CAPABILITIES: i32 = 31;

/// Flag of `KEYCTL_MOVE`.
pub const KEYCTL_MOVE_EXCL: u32 = 1;

/// Permissions of the possessor of a key; those of its user, its group and others are 8, 16 and 24 bits
/// lower.
pub const KEY_POS_VIEW: u32 = 0x0100_0000;
pub const KEY_POS_READ: u32 = 0x0200_0000;
pub const KEY_POS_SEARCH: u32 = 0x0800_0000;
pub const KEY_POS_SETATTR: u32 = 0x2000_0000;
pub const KEY_POS_ALL: u32 = 0x3f00_0000;
pub const KEY_USR_VIEW: u32 = 0x0001_0000;
pub const KEY_USR_READ: u32 = 0x0002_0000;
pub const KEY_USR_LINK: u32 = 0x0010_0000;
pub const KEY_USR_ALL: u32 = 0x003f_0000;
pub const KEY_GRP_ALL: u32 = 0x0000_3f00;
pub const KEY_OTH_ALL: u32 = 0x0000_003f;
