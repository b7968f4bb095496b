use super::*;
use belljar_base::Seed;

fn table() -> KeyTable {
    KeyTable::new(Seed(1).stream(&["keys"]))
}

fn user(uid: u32) -> Credentials {
    Credentials::of_user(uid, uid, Vec::new())
}

/// Thread of a user with a clock that only a test advances.
struct Task {
    rings: TaskKeyrings,
    who: Credentials,
    now: i64,
}

impl Task {
    fn of(uid: u32) -> Task {
        Task { rings: TaskKeyrings::default(), who: user(uid), now: 1_000 }
    }
    fn on<'a>(&'a mut self, table: &'a mut KeyTable) -> KeyCaller<'a> {
        KeyCaller::new(table, &mut self.rings, &self.who, self.now)
    }
    fn add(&mut self, table: &mut KeyTable, name: &str, ring: i32) -> Result<i32, Errno> {
        self.on(table).add(b"user", name.into(), b"secret".to_vec(), ring)
    }
    fn add_ring(&mut self, table: &mut KeyTable, name: &str, ring: i32) -> Result<i32, Errno> {
        self.on(table).add(b"keyring", name.into(), Vec::new(), ring)
    }
}

#[test]
fn numbers_depend_on_the_seed_alone() {
    let numbers = |seed| {
        let mut table = KeyTable::new(Seed(seed).stream(&["keys"]));
        let mut task = Task::of(5);
        ["a", "b"].map(|name| task.add(&mut table, name, KEY_SPEC_PROCESS_KEYRING).unwrap())
    };
    assert_eq!(numbers(1), numbers(1));
    assert_ne!(numbers(1), numbers(2));
}

#[test]
fn types_say_what_a_payload_may_be() {
    let (mut table, mut task) = (table(), Task::of(0));
    let mut add = |kind: &str, name: &str, len: usize| {
        let ring = KEY_SPEC_THREAD_KEYRING;
        task.on(&mut table).add(kind.as_bytes(), name.into(), vec![1; len], ring).map(|_| ())
    };
    assert_eq!([0, 1].map(|len| add("keyring", "a", len)), [Ok(()), Err(Errno::EINVAL)]);
    let ends = [0, 1, 32_767, 32_768].map(|len| add("user", "b", len));
    assert_eq!(ends, [Err(Errno::EINVAL), Ok(()), Ok(()), Err(Errno::EINVAL)]);
    assert_eq!(
        ["x", ":x", "a:x"].map(|name| add("logon", name, 5)),
        [Err(Errno::EINVAL), Err(Errno::EINVAL), Ok(())]
    );
    assert_eq!(add("big_key", "c", 1 << 20), Ok(()));
    assert_eq!((add("other", "c", 1), add("user", "", 1)), (Err(Errno::ENODEV), Err(Errno::EINVAL)));
}

#[test]
fn a_key_lives_as_long_as_it_is_linked() {
    let (mut table, mut task) = (table(), Task::of(5));
    let ring = task.add_ring(&mut table, "r", KEY_SPEC_PROCESS_KEYRING).unwrap();
    let key = task.add(&mut table, "k", ring).unwrap();
    task.on(&mut table).link(key, KEY_SPEC_THREAD_KEYRING).unwrap();
    task.on(&mut table).unlink(ring, KEY_SPEC_PROCESS_KEYRING).unwrap();
    assert_eq!(task.on(&mut table).describe(ring), Err(Errno::ENOKEY));
    assert_eq!(task.on(&mut table).read(key, 0), Ok(b"secret".to_vec()));
    table.ended(std::mem::take(&mut task.rings));
    assert!(table.keys.is_empty() && table.quotas.is_empty());
}

#[test]
fn a_second_key_of_a_name_updates_or_replaces_the_first() {
    let (mut table, mut task) = (table(), Task::of(5));
    let first = task.add(&mut table, "k", KEY_SPEC_PROCESS_KEYRING).unwrap();
    let mut caller = task.on(&mut table);
    assert_eq!(caller.add(b"user", "k".into(), b"new".to_vec(), KEY_SPEC_PROCESS_KEYRING), Ok(first));
    assert_eq!(caller.read(first, 0), Ok(b"new".to_vec()));
    caller.revoke(first).unwrap();
    let second = task.add(&mut table, "k", KEY_SPEC_PROCESS_KEYRING).unwrap();
    assert_ne!(first, second);
    assert_eq!(task.on(&mut table).read(first, 0), Err(Errno::ENOKEY));
    let rings = ["r", "r"].map(|name| task.add_ring(&mut table, name, KEY_SPEC_PROCESS_KEYRING).unwrap());
    assert_ne!(rings[0], rings[1]);
    assert_eq!(task.on(&mut table).describe(rings[0]), Err(Errno::ENOKEY));
}

#[test]
fn possession_and_ownership_give_rights() {
    let (mut table, mut task, mut other) = (table(), Task::of(5), Task::of(6));
    let key = task.add(&mut table, "k", KEY_SPEC_PROCESS_KEYRING).unwrap();
    assert_eq!(other.on(&mut table).read(key, 0), Err(Errno::EACCES));
    assert_eq!(other.on(&mut table).describe(key), Err(Errno::EACCES));
    task.on(&mut table).set_permissions(key, 0x3f00_0003).unwrap();
    assert_eq!(other.on(&mut table).read(key, 0), Ok(b"secret".to_vec()));
    assert_eq!(other.on(&mut table).set_permissions(key, 0), Err(Errno::EACCES));
    // Another thread of the same user does not possess it.
    let mut twin = Task::of(5);
    task.on(&mut table).set_permissions(key, 0x3f01_0000).unwrap();
    assert_eq!(twin.on(&mut table).describe(key).unwrap(), b"user;5;5;3f010000;k\0");
    assert_eq!(twin.on(&mut table).read(key, 0), Err(Errno::EACCES));
    // A possessor may read a key that a search finds.
    task.on(&mut table).set_permissions(key, KEY_POS_SEARCH | KEY_POS_SETATTR).unwrap();
    assert_eq!(task.on(&mut table).read(key, 0), Ok(b"secret".to_vec()));
    assert_eq!(task.on(&mut table).change_owner(key, Some(6), None), Err(Errno::EACCES));
    assert_eq!(task.on(&mut table).set_permissions(key, 0x8000_0000), Err(Errno::EINVAL));
}

#[test]
fn rings_do_not_lead_to_themselves() {
    let (mut table, mut task) = (table(), Task::of(5));
    let mut rings = vec![task.on(&mut table).ring_number(KEY_SPEC_PROCESS_KEYRING, true).unwrap()];
    for depth in 0..8 {
        let below = task.add_ring(&mut table, &format!("{depth}"), *rings.last().unwrap()).unwrap();
        rings.push(below);
    }
    let mut caller = task.on(&mut table);
    assert_eq!(caller.link(rings[2], rings[2]), Err(Errno::EDEADLK));
    assert_eq!(caller.link(rings[2], rings[5]), Err(Errno::EDEADLK));
    assert_eq!(caller.link(rings[0], KEY_SPEC_THREAD_KEYRING), Err(Errno::ELOOP));
    assert_eq!(caller.link(rings[7], rings[1]), Ok(()));
}

#[test]
fn searches_go_through_all_rings_of_a_thread() {
    let (mut table, mut task) = (table(), Task::of(5));
    task.on(&mut table).join_session(None).unwrap();
    let ring = task.add_ring(&mut table, "r", KEY_SPEC_SESSION_KEYRING).unwrap();
    let key = task.add(&mut table, "k", ring).unwrap();
    let mut caller = task.on(&mut table);
    assert_eq!(caller.request(b"user", "k".into(), None, KEY_SPEC_THREAD_KEYRING), Ok(key));
    assert_eq!(caller.search(KEY_SPEC_THREAD_KEYRING, b"user", "k".into(), 0), Ok(key));
    assert_eq!(caller.request(b"user", "l".into(), None, 0), Err(Errno::ENOKEY));
    assert_eq!(caller.search(ring, b"user", "l".into(), 0), Err(Errno::ENOKEY));
    assert_eq!(caller.search(key, b"user", "l".into(), 0), Err(Errno::ENOTDIR));
}

#[test]
fn a_key_that_cannot_be_made_is_known_not_to_exist_for_a_minute() {
    let (mut table, mut task) = (table(), Task::of(5));
    let request = |task: &mut Task, table: &mut KeyTable| {
        let callout = Some(b"how".to_vec());
        task.on(table).request(b"user", "k".into(), callout, KEY_SPEC_PROCESS_KEYRING)
    };
    assert_eq!(request(&mut task, &mut table), Err(Errno::ENOENT));
    assert_eq!(request(&mut task, &mut table), Err(Errno::ENOKEY));
    let listed = task.on(&mut table).read(KEY_SPEC_PROCESS_KEYRING, 0).unwrap();
    let key = i32::from_le_bytes(listed.try_into().unwrap());
    assert_eq!(task.on(&mut table).read(key, 0), Err(Errno::ENOKEY));
    assert!(task.on(&mut table).list().contains("I--Q-N-     1   1m 3f010000     5     5 user      k\n"));
    task.now += 60;
    assert_eq!(request(&mut task, &mut table), Err(Errno::ENOENT));
    // A payload instantiates the key.
    task.add(&mut table, "k", KEY_SPEC_PROCESS_KEYRING).unwrap();
    assert!(request(&mut task, &mut table).is_ok());
    assert_eq!(task.on(&mut table).request(b"keyring", "k".into(), Some(vec![]), 0), Err(Errno::EPERM));
}

#[test]
fn dead_keys_are_collected_after_a_delay() {
    let (mut table, mut task) = (table(), Task::of(5));
    let [short, long] = ["s", "l"].map(|name| task.add(&mut table, name, KEY_SPEC_PROCESS_KEYRING).unwrap());
    task.on(&mut table).set_timeout(short, 10).unwrap();
    task.on(&mut table).set_timeout(long, 1_000).unwrap();
    task.now += 10;
    assert_eq!(task.on(&mut table).read(short, 0), Err(Errno::EKEYEXPIRED));
    task.now += 300;
    assert_eq!(task.on(&mut table).read(short, 0), Err(Errno::ENOKEY));
    task.on(&mut table).revoke(long).unwrap();
    assert_eq!(task.on(&mut table).read(long, 0), Err(Errno::EKEYREVOKED));
    *table.limit(KeyLimit::GcDelay) = 1;
    task.now += 1;
    assert_eq!(task.on(&mut table).read(long, 0), Err(Errno::ENOKEY));
    assert_eq!(task.on(&mut table).read(KEY_SPEC_PROCESS_KEYRING, 0), Ok(Vec::new()));
}

#[test]
fn an_invalidated_key_goes_at_once() {
    let (mut table, mut task) = (table(), Task::of(5));
    let key = task.add(&mut table, "k", KEY_SPEC_PROCESS_KEYRING).unwrap();
    task.on(&mut table).link(key, KEY_SPEC_THREAD_KEYRING).unwrap();
    task.on(&mut table).invalidate(key).unwrap();
    assert_eq!(task.on(&mut table).revoke(key), Err(Errno::ENOKEY));
    assert_eq!(task.on(&mut table).read(KEY_SPEC_THREAD_KEYRING, 0), Ok(Vec::new()));
}

#[test]
fn quotas_are_reached_exactly() {
    let (mut table, mut task) = (table(), Task::of(5));
    *table.limit(KeyLimit::MaxBytes) = 100;
    // Charges: the process keyring, its name and the terminating NUL.
    task.on(&mut table).ring_number(KEY_SPEC_PROCESS_KEYRING, true).unwrap();
    let mut add = |len: usize| {
        let mut caller = task.on(&mut table);
        caller.add(b"user", "four".into(), vec![0; len], KEY_SPEC_PROCESS_KEYRING).map(|_| ())
    };
    assert_eq!(add(100 - 5 - 5 - 4 + 1), Err(Errno::EDQUOT));
    assert_eq!(add(100 - 5 - 5 - 4), Ok(()));
    assert_eq!(task.on(&mut table).list_users(), "    5:     2 2/2 2/200 100/100\n");
    *table.limit(KeyLimit::MaxKeys) = 2;
    *table.limit(KeyLimit::MaxBytes) = 200;
    assert_eq!(task.add(&mut table, "k", KEY_SPEC_PROCESS_KEYRING), Err(Errno::EDQUOT));
    task.on(&mut table).clear(KEY_SPEC_PROCESS_KEYRING).unwrap();
    assert_eq!(table.quotas[&5], Quota { keys: 1, bytes: 5 });
}

#[test]
fn children_share_the_session_alone() {
    let (mut table, mut task) = (table(), Task::of(5));
    let key = task.add(&mut table, "k", KEY_SPEC_PROCESS_KEYRING).unwrap();
    task.on(&mut table).ring_number(KEY_SPEC_THREAD_KEYRING, true).unwrap();
    let session = task.on(&mut table).join_session(None).unwrap();
    let thread = table.inherit(&task.rings, true, &task.who);
    assert_eq!((thread.process, thread.session), (task.rings.process, Some(session)));
    assert!(thread.thread.is_some() && thread.thread != task.rings.thread);
    let child = table.inherit(&task.rings, false, &task.who);
    assert_eq!((child.thread, child.process, child.session), (None, None, Some(session)));
    table.executed(&mut task.rings);
    // The other thread still holds the process keyring.
    assert!(table.keys.contains_key(&key));
    for rings in [thread, child, task.rings] {
        table.ended(rings);
    }
    assert!(table.keys.is_empty());
}

#[test]
fn sessions_are_joined_by_name() {
    let (mut table, mut task, mut other) = (table(), Task::of(5), Task::of(5));
    let named =
        |task: &mut Task, table: &mut KeyTable| task.on(table).join_session(Some("s".into())).unwrap();
    let own = named(&mut task, &mut table);
    // A thread that does not possess the keyring may not search it.
    assert_ne!(named(&mut other, &mut table), own);
    task.on(&mut table).set_permissions(own, 0x3f1b_0000).unwrap();
    assert_eq!((named(&mut other, &mut table), named(&mut other, &mut table)), (own, 0));
    assert_eq!(other.on(&mut table).join_session(Some(Vec::new())), Err(Errno::EINVAL));
    let mut parent = TaskKeyrings::default();
    let (five, six) = (user(5), user(6));
    assert_eq!(table.give_session(own, &mut parent, (&six, &six)), Err(Errno::EPERM));
    assert_eq!(table.give_session(own, &mut parent, (&five, &six)), Err(Errno::EPERM));
    assert_eq!((table.give_session(own, &mut parent, (&five, &five)), parent.session), (Ok(()), Some(own)));
}

#[test]
fn user_keyrings_stay_and_cannot_be_taken_by_their_name() {
    let (mut table, mut root, mut task) = (table(), Task::of(0), Task::of(5));
    let forged = root.add_ring(&mut table, "_uid.5", KEY_SPEC_PROCESS_KEYRING).unwrap();
    let own = task.on(&mut table).ring_number(KEY_SPEC_USER_KEYRING, false).unwrap();
    assert_ne!(forged, own);
    let session = task.on(&mut table).ring_number(KEY_SPEC_SESSION_KEYRING, false).unwrap();
    assert_eq!(task.on(&mut table).ring_number(KEY_SPEC_USER_SESSION_KEYRING, false), Ok(session));
    // Writing to the session keyring creates one for the thread.
    assert_ne!(task.on(&mut table).ring_number(KEY_SPEC_SESSION_KEYRING, true), Ok(session));
    table.ended(std::mem::take(&mut task.rings));
    assert_eq!(task.on(&mut table).ring_number(KEY_SPEC_USER_KEYRING, false), Ok(own));
    let persistent = task.on(&mut table).persistent(None, KEY_SPEC_USER_KEYRING).unwrap();
    assert_eq!(task.on(&mut table).persistent(Some(5), KEY_SPEC_USER_KEYRING), Ok(persistent));
    assert_eq!(task.on(&mut table).persistent(Some(6), KEY_SPEC_USER_KEYRING), Err(Errno::EPERM));
    task.now += 259_200 + 300;
    assert_ne!(task.on(&mut table).persistent(None, KEY_SPEC_USER_KEYRING), Ok(persistent));
}

#[test]
fn a_restricted_ring_takes_nothing_more() {
    let (mut table, mut task) = (table(), Task::of(5));
    let key = task.add(&mut table, "k", KEY_SPEC_PROCESS_KEYRING).unwrap();
    let ring = task.add_ring(&mut table, "r", KEY_SPEC_PROCESS_KEYRING).unwrap();
    assert_eq!(task.on(&mut table).relink(key, KEY_SPEC_PROCESS_KEYRING, ring, true), Ok(()));
    assert_eq!(task.on(&mut table).restrict(ring, Some(b"user")), Err(Errno::ENOENT));
    assert_eq!(
        (task.on(&mut table).restrict(ring, None), task.on(&mut table).restrict(ring, None)),
        (Ok(()), Err(Errno::EEXIST))
    );
    assert_eq!(task.add(&mut table, "l", ring), Err(Errno::EPERM));
    assert_eq!(task.on(&mut table).unlink(key, ring), Ok(()));
}

#[test]
fn a_move_may_replace_what_held_the_ring_it_comes_from() {
    let (mut table, mut task) = (table(), Task::of(5));
    let to = task.add_ring(&mut table, "to", KEY_SPEC_PROCESS_KEYRING).unwrap();
    let outer = task.add_ring(&mut table, "x", to).unwrap();
    let from = task.add_ring(&mut table, "from", outer).unwrap();
    let inner = task.add_ring(&mut table, "x", from).unwrap();
    task.on(&mut table).relink(inner, from, to, false).unwrap();
    assert_eq!(task.on(&mut table).describe(from), Err(Errno::ENOKEY));
    assert!(task.on(&mut table).describe(inner).is_ok());
}
