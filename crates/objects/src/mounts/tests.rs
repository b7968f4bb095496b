use super::*;

const DISK: u64 = 0x801;

fn mounts() -> Mounts {
    Mounts::new(InodeKey(0), DISK, "ext4", b"/dev/sda1")
}
fn tmpfs(mounts: &mut Mounts, root: usize) -> MountKey {
    let root = InodeKey(root);
    let flags = MountFlags::empty();
    let device = mounts.add_file_system(|_| FileSystem {
        owner: 0,
        kind: "tmpfs",
        root,
        flags,
        seed: false,
        room: None,
        options: String::new(),
    });
    mounts.add(root, device, b"none", flags)
}
fn everywhere(_: InodeKey, _: InodeKey) -> bool {
    true
}

#[test]
fn a_mount_hides_its_point_and_is_left_upwards() {
    let mut mounts = mounts();
    let (first, second) = (tmpfs(&mut mounts, 50), tmpfs(&mut mounts, 60));
    let point = (BASE, InodeKey(7));
    mounts.attach(first, point, &everywhere).unwrap();
    assert_eq!(mounts.top(BASE, InodeKey(7)), (first, InodeKey(50)));
    mounts.attach(second, (first, InodeKey(50)), &everywhere).unwrap();
    assert_eq!(mounts.top(BASE, InodeKey(7)), (second, InodeKey(60)), "one over the other");
    assert_eq!(mounts.under(second, InodeKey(60)), point);
    assert_eq!(mounts.under(second, InodeKey(61)), (second, InodeKey(61)), "not its root");
    assert!(mounts.is_within(second, BASE) && !mounts.is_within(BASE, second));
    assert_eq!(mounts.take_down(first), [first, second]);
    assert_eq!(mounts.top(BASE, InodeKey(7)), point);
    let ended = mounts.end(second).expect("its file system goes with it");
    assert_eq!(ended.1.root, InodeKey(60));
}

#[test]
fn files_keep_a_detached_mount_until_they_are_closed() {
    let mut mounts = mounts();
    let mount = tmpfs(&mut mounts, 50);
    mounts.attach(mount, (BASE, InodeKey(7)), &everywhere).unwrap();
    mounts.opened(mount, true);
    assert_eq!(mounts.writers_of(mounts.get(mount).device), 1);
    assert!(mounts.take_down(mount).is_empty());
    assert!(mounts.closed(mount, true) && mounts.end(mount).is_some());
    assert_eq!(mounts.all.len(), 1, "what there was at the start");
}

#[test]
fn copies_share_a_file_system_and_peers_get_what_is_mounted() {
    let mut mounts = mounts();
    let mount = tmpfs(&mut mounts, 50);
    mounts.attach(mount, (BASE, InodeKey(7)), &everywhere).unwrap();
    mounts.set_propagation(mount, Propagation::Shared, false);
    let copy = mounts.copy(mount, InodeKey(50), CopyExtent::One, &everywhere_once);
    mounts.attach(copy, (BASE, InodeKey(8)), &everywhere).unwrap();
    let inner = tmpfs(&mut mounts, 60);
    mounts.attach(inner, (mount, InodeKey(51)), &everywhere).unwrap();
    assert_ne!(mounts.top(copy, InodeKey(51)), (copy, InodeKey(51)), "its peer shows it too");
    mounts.set_propagation(copy, Propagation::Slave, false);
    let back = tmpfs(&mut mounts, 70);
    mounts.attach(back, (copy, InodeKey(52)), &everywhere).unwrap();
    assert_eq!(mounts.top(mount, InodeKey(52)), (mount, InodeKey(52)), "a slave passes nothing back");
    for gone in mounts.take_down(inner) {
        assert_eq!(mounts.end(gone).is_some(), gone != inner, "the last of both takes the file system along");
    }
    assert_eq!(mounts.top(copy, InodeKey(51)), (copy, InodeKey(51)));
}
fn everywhere_once(_: InodeKey) -> bool {
    true
}

#[test]
fn a_namespace_has_mounts_of_its_own() {
    let mut mounts = mounts();
    let outer = tmpfs(&mut mounts, 50);
    mounts.attach(outer, (BASE, InodeKey(7)), &everywhere).unwrap();
    let inside = mounts.copy_namespace(0, false);
    let root = mounts.root_of(inside);
    assert_ne!(root, BASE);
    let copied = mounts.top(root, InodeKey(7)).0;
    assert!(copied != outer && mounts.get(copied).namespace == Some(inside));
    let private = tmpfs(&mut mounts, 60);
    mounts.attach(private, (root, InodeKey(9)), &everywhere).unwrap();
    assert_eq!(mounts.top(BASE, InodeKey(9)), (BASE, InodeKey(9)));
    mounts.enter(inside);
    assert!(mounts.leave(inside).is_empty());
    let gone = mounts.leave(inside);
    assert_eq!(gone.len(), 3);
    let systems: Vec<_> = gone.into_iter().filter_map(|mount| mounts.end(mount)).collect();
    assert_eq!(systems.len(), 1, "the outer one is still shown outside");
}

#[test]
fn flags_are_those_of_the_mount_and_of_the_file_system() {
    let mut mounts = mounts();
    mounts.add_seed(InodeKey(3), 0x14, "proc");
    let mount = tmpfs(&mut mounts, 50);
    let device = mounts.get(mount).device;
    mounts.get_mut(mount).flags = MountFlags::NO_EXEC | MountFlags::RELATIVE_ACCESS_TIME;
    mounts.system_mut(device).unwrap().flags = MountFlags::READ_ONLY;
    let flags = mounts.flags(mount, device);
    assert!(flags.contains(MountFlags::READ_ONLY | MountFlags::NO_EXEC));
    assert_eq!(flags.shown(), ",noexec,relatime");
    mounts.get_mut(BASE).flags |= MountFlags::READ_ONLY;
    assert!(!mounts.flags(BASE, 0x14).contains(MountFlags::READ_ONLY), "a seed is a file system of its own");
}
