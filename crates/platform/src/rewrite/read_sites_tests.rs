use super::*;

const RANDOM: [HardwareRead; 3] = [HardwareRead::Rdrand, HardwareRead::Rdseed, HardwareRead::Rdpid];

/// Compiled code of 96 bytes and more, and `code` behind it.
fn behind_code(code: &[u8]) -> Vec<u8> {
    let ordinary: [&[u8]; 6] = [
        &[0x48, 0x8b, 0x7c, 0x24, 0x10], // mov 16(%rsp), %rdi
        &[0x31, 0xc9],                   // xor %ecx, %ecx
        &[0x83, 0xc0, 0x01],             // add $1, %eax
        &[0x89, 0x5c, 0x24, 0x08],       // mov %ebx, 8(%rsp)
        &[0xf3, 0x0f, 0x6f, 0x06],       // movdqu (%rsi), %xmm0
        &[0x48, 0x39, 0xd8],             // cmp %rbx, %rax
    ];
    [ordinary.concat().repeat(6), code.to_vec(), ordinary.concat().repeat(6)].concat()
}

fn at(code: &[u8], read: &[u8]) -> u64 {
    code.windows(read.len()).position(|window| window == read).expect("it is there") as u64
}

#[test]
fn instructions_of_every_size_and_register_are_proven_where_they_are_used() {
    // rdrand %ax, %eax, %rax, %r9d, %r15; rdseed %r8w, %edx, %rsi
    let reads: [(&[u8], HardwareRead, u8, u8); 8] = [
        (&[0x66, 0x0f, 0xc7, 0xf0], HardwareRead::Rdrand, 0, 2),
        (&[0x0f, 0xc7, 0xf0], HardwareRead::Rdrand, 0, 4),
        (&[0x48, 0x0f, 0xc7, 0xf0], HardwareRead::Rdrand, 0, 8),
        (&[0x41, 0x0f, 0xc7, 0xf1], HardwareRead::Rdrand, 9, 4),
        (&[0x49, 0x0f, 0xc7, 0xf7], HardwareRead::Rdrand, 15, 8),
        (&[0x66, 0x41, 0x0f, 0xc7, 0xf8], HardwareRead::Rdseed, 8, 2),
        (&[0x0f, 0xc7, 0xfa], HardwareRead::Rdseed, 2, 4),
        (&[0x48, 0x0f, 0xc7, 0xfe], HardwareRead::Rdseed, 6, 8),
    ];
    for (read, what, register, size) in reads {
        // setb %cl; jae back
        for uses in [&[0x0f, 0x92, 0xc1][..], &[0x73, 0xf0]] {
            let code = behind_code(&[read, uses].concat());
            let expected =
                Read { what, at: at(&code, read), len: read.len() as u8, register, size, is_proven: true };
            assert_eq!(find(&code, &RANDOM, &[]), [expected], "{read:x?}");
        }
    }
    // rdpid %rax; mov %rax, (%rdi)
    let code = behind_code(&[0xf3, 0x0f, 0xc7, 0xf8, 0x48, 0x89, 0x07]);
    let found = find(&code, &RANDOM, &[]);
    assert_eq!((found.len(), found[0].what, found[0].is_proven), (1, HardwareRead::Rdpid, true));
    // rdtsc; shl $32, %rdx
    let code = behind_code(&[0x0f, 0x31, 0x48, 0xc1, 0xe2, 32]);
    assert_eq!(find(&code, &RANDOM, &[]), []);
    let found = find(&code, &[HardwareRead::Rdtsc], &[]);
    assert_eq!((found.len(), found[0].what, found[0].is_proven), (1, HardwareRead::Rdtsc, true));
}

#[test]
fn an_xgetbv_matters_if_it_reads_the_registers_in_use() {
    let kinds = [HardwareRead::Xgetbv, HardwareRead::Rdpru];
    let looks = |before: &[u8], behind: &[u8]| {
        let found = find(&behind_code(&[before, &[0x0f, 0x01, 0xd0], behind].concat()), &kinds, &[]);
        assert!(found.iter().all(|read| (read.what, read.len) == (HardwareRead::Xgetbv, 3)));
        found.iter().map(|read| read.is_proven).collect::<Vec<_>>()
    };
    // shl $32, %rdx uses the result; mov %rbp, %rsi does not.
    let (used, unused) = ([0x48, 0xc1, 0xe2, 32], [0x48, 0x89, 0xee]);
    // mov $1, %ecx; mov %edi, %ecx; xor %ecx, %ecx; mov $0, %ecx
    let (one, unknown) = ([0xb9, 1, 0, 0, 0], [0x89, 0xf9]);
    assert_eq!((looks(&one, &used), looks(&unknown, &used)), (vec![true], vec![true]));
    assert_eq!((looks(&[0x31, 0xc9], &used), looks(&[0xb9, 0, 0, 0, 0], &used)), (vec![], vec![]));
    // ret, before which the code behind uses nothing.
    assert_eq!((looks(&one, &[&unused[..], &[0x31, 0xc0, 0xba, 0, 0, 0, 0, 0xc3]].concat()).len()), 1);
    // rdpru; shl $32, %rdx
    let found = find(&behind_code(&[0x0f, 0x01, 0xfd, 0x48, 0xc1, 0xe2, 32]), &kinds, &[]);
    assert_eq!((found.len(), found[0].what, found[0].is_proven), (1, HardwareRead::Rdpru, true));
}

#[test]
fn a_result_that_nothing_uses_gives_a_suspicion() {
    let is_proven = |read: &[u8]| {
        let found = find(&behind_code(read), &RANDOM, &[]);
        assert_eq!(found.len(), 1);
        found[0].is_proven
    };
    // rdrand %ebp, %r13, %ax: no code behind uses them.
    assert!(!is_proven(&[0x0f, 0xc7, 0xf5]));
    assert!(is_proven(&[0x49, 0x0f, 0xc7, 0xf5]) && is_proven(&[0x66, 0x0f, 0xc7, 0xf5]));
}

#[test]
fn a_cpuid_needs_a_leaf_or_a_neighbour() {
    let looks = |code: &[u8], known: &[u64]| {
        let found = find(code, &[HardwareRead::Cpuid], known);
        assert!(found.iter().all(|read| read.what == HardwareRead::Cpuid));
        found.iter().map(|read| read.is_proven).collect::<Vec<_>>()
    };
    // cpuid; mov %eax, (%rdi)
    let code = behind_code(&[0x0f, 0xa2, 0x89, 0x07]);
    let here = at(&code, &[0x0f, 0xa2]);
    assert_eq!(looks(&code, &[]), [false]);
    assert_eq!(looks(&code, &[here + 1000]), [true]);
    assert_eq!(looks(&code, &[here]), [], "known already");
    // xor %eax, %eax; cpuid; mov %eax, (%rdi)
    assert_eq!(looks(&behind_code(&[0x31, 0xc0, 0x0f, 0xa2, 0x89, 0x07]), &[]), [true]);
}

#[test]
fn a_cpuid_behind_a_table_is_proven_by_its_leaf_and_results() {
    let looks = |leaf: &[u8]| {
        // hlt at a distance that no decoding passes; mov %rbx, %r8
        let table = [&[0xf4; 60][..], &[0x06; 60], &[0x49, 0x89, 0xd8]].concat();
        // cpuid; cmp $0x746e6543, %ebx; jne; cmp $0x48727561, %edx; jne; cmp $0x736c7561, %ecx
        let uses =
            [0x81, 0xfb, 0x43, 0x65, 0x6e, 0x74, 0x75, 0x32, 0x81, 0xfa, 0x61, 0x75, 0x72, 0x48, 0x75, 0x44];
        let rest = [0x81, 0xf9, 0x61, 0x75, 0x6c, 0x73, 0x75, 0x3c, 0x31, 0xc0, 0xc3];
        let code = [&table[..], leaf, &[0x0f, 0xa2], &uses, &rest].concat();
        find(&code, &[HardwareRead::Cpuid], &[]).iter().map(|read| read.is_proven).collect::<Vec<_>>()
    };
    assert_eq!(looks(&[0x31, 0xc0]), [true]); // xor %eax, %eax
    assert_eq!(looks(&[0x89, 0xf8]), [false]); // mov %edi, %eax
}

#[test]
fn the_start_of_memory_gives_a_suspicion() {
    // rdrand %rax; setb %cl; ret
    let page = [&[0x48, 0x0f, 0xc7, 0xf0, 0x0f, 0x92, 0xc1, 0xc3][..], &[0; 100]].concat();
    let found = find(&page, &RANDOM, &[]);
    assert_eq!((found.len(), found[0].at, found[0].is_proven), (1, 0, false));
    // In the midst of zeros, which decode as instructions of two bytes.
    let page = [&[0; 201], &page[..]].concat();
    let found = find(&page, &RANDOM, &[]);
    assert_eq!((found.len(), found[0].is_proven), (1, false));
}

#[test]
fn operands_with_the_same_bytes_are_neither() {
    let others: [&[u8]; 5] = [
        &[0xb8, 0x0f, 0xc7, 0xf0, 0x00],                   // mov $0xf0c70f, %eax
        &[0x48, 0x8d, 0x05, 0x0f, 0xc7, 0xf8, 0xff],       // lea -0x738f1(%rip), %rax
        &[0xe8, 0x0f, 0xc7, 0xf1, 0xff],                   // call
        &[0x48, 0xb8, 1, 2, 0x0f, 0xc7, 0xf0, 0x72, 1, 2], // movabs
        &[0x48, 0x0f, 0xc7, 0x0e],                         // cmpxchg16b (%rsi)
    ];
    for other in others {
        let code = behind_code(&[other, &[0x73, 0xf0]].concat());
        assert_eq!(find(&code, &RANDOM, &[]), [], "{other:x?}");
    }
}

#[test]
fn tables_are_not_proven() {
    // Pseudo-random bytes with the opcode sown in.
    let mut state = 1u64;
    let mut table: Vec<u8> = (0..1_200_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let kinds = [&RANDOM[..], &[HardwareRead::Cpuid, HardwareRead::Rdtsc]].concat();
    for (n, at) in (200..table.len() - 4).step_by(20).enumerate() {
        let opcode: &[u8] = [&[0x0f, 0xc7, 0xf0][..], &[0x0f, 0xa2], &[0x0f, 0x31]][n % 3];
        table[at..at + opcode.len()].copy_from_slice(opcode);
    }
    let found = find(&table, &kinds, &[]);
    let proven: Vec<u64> = found.iter().filter(|read| read.is_proven).map(|read| read.at).collect();
    // Fewer than one in ten thousand of opcodes that occur by chance once in 2^16 to 2^20 bytes.
    assert!(proven.len() <= 6, "{proven:?} of {}", found.len());
}
