use crate::ids::ThreadKey;
use crate::outcome::{CallState, IfInterrupted};
use crate::process::WaitStatus;
use crate::signal::delivery::Delivery;
use crate::testing::{DATA, TestHost};
use crate::thread::ThreadState;
use belljar_linux_abi::signal::{KernelSigaction, RtSigFrame, SigInfo, sig_bit};
use belljar_linux_abi::{Errno, c};
use zerocopy::FromBytes;

const HANDLER: u64 = 0x1234;
const SA_RESTORER: u64 = 0x0400_0000;
const STACK: u64 = 0x8_0000;

fn with_handler(signal: i32, flags: u64) -> (TestHost, ThreadKey) {
    let mut t = TestHost::new(1);
    let thread = t.threads[0];
    let action = KernelSigaction { handler: HANDLER, flags: flags | SA_RESTORER, restorer: 0x99, mask: 0 };
    t.host.threads.set_action(&mut t.host.processes, t.process, signal, action);
    let context = t.host.thread(thread).context;
    let regs = t.host.machine.regs_mut(context);
    (regs.rsp, regs.rip, regs.rax, regs.rbx) = (DATA + STACK, 0x5002, 35, 77);
    (t, thread)
}

fn user(signal: i32) -> SigInfo {
    SigInfo::user(signal, c::SI_USER, 1, 0)
}

#[test]
fn a_handler_gets_its_frame_and_the_return_restores_everything() {
    let (mut t, thread) = with_handler(c::SIGUSR1, 0);
    let context = t.host.thread(thread).context;
    let before = *t.host.machine.regs(context);
    assert!(t.host.send_signal(t.process, user(c::SIGUSR1)));
    assert!(matches!(t.host.deliver_signals(thread, None), Delivery::ToGuest));
    let regs = *t.host.machine.regs(context);
    assert_eq!((regs.rip, regs.rdi), (HANDLER, c::SIGUSR1 as u64));
    assert!(regs.rsp < before.rsp - 128 && regs.rsp % 16 == 8);
    assert_eq!(t.host.thread(thread).signals.blocked, sig_bit(c::SIGUSR1));
    let bytes = t.get(regs.rsp - DATA, size_of::<RtSigFrame>());
    let frame = RtSigFrame::read_from_bytes(&bytes).unwrap();
    assert_eq!((frame.pretcode, frame.uc.mcontext.rip, frame.uc.sigmask), (0x99, before.rip, 0));
    assert_eq!((frame.info.signo, frame.info.pid()), (c::SIGUSR1, 1));

    t.host.machine.regs_mut(context).rsp += 8;
    t.host.machine.regs_mut(context).rbx = 0;
    t.host.pop_frame(thread).unwrap();
    assert_eq!(*t.host.machine.regs(context), before);
    assert_eq!(t.host.thread(thread).signals.blocked, 0);
}

#[test]
fn a_handler_ends_or_restarts_the_interrupted_call() {
    for (flags, rip, rax) in [(0, 0x5002, Errno::EINTR.as_return()), (c::SA_RESTART as u64, 0x5000, 35)] {
        let (mut t, thread) = with_handler(c::SIGUSR1, flags);
        t.host.send_signal(t.process, user(c::SIGUSR1));
        t.host.deliver_signals(thread, Some((IfInterrupted::Restart, CallState::None)));
        let at = t.host.machine.regs(t.host.threads[thread.0].context).rsp;
        let frame = RtSigFrame::read_from_bytes(&t.get(at - DATA, size_of::<RtSigFrame>())).unwrap();
        assert_eq!((frame.uc.mcontext.rip, frame.uc.mcontext.rax), (rip, rax));
    }
}

#[test]
fn a_call_goes_on_when_no_handler_has_run() {
    let (mut t, thread) = with_handler(c::SIGUSR1, 0);
    let interrupted = Some((IfInterrupted::Eintr, CallState::Progress(9)));
    let delivery = t.host.deliver_signals(thread, interrupted);
    assert!(matches!(delivery, Delivery::CallGoesOn(CallState::Progress(9))));
}

#[test]
fn a_stack_that_cannot_hold_the_frame_kills() {
    let (mut t, thread) = with_handler(c::SIGUSR1, 0);
    let context = t.host.thread(thread).context;
    t.host.machine.regs_mut(context).rsp = 0x10;
    t.host.send_signal(t.process, user(c::SIGUSR1));
    assert!(matches!(t.host.deliver_signals(thread, None), Delivery::Gone));
    let ended = t.host.take_reports();
    assert!(
        matches!(&ended[..], [crate::ProcessReport::Ended { status: WaitStatus::Signaled(c::SIGSEGV), .. }]),
        "{ended:?}"
    );
}

#[test]
fn a_stopped_process_takes_nothing_until_it_is_continued() {
    let (mut t, thread) = with_handler(c::SIGUSR1, 0);
    t.host.send_signal(t.process, user(c::SIGSTOP));
    assert!(matches!(t.host.deliver_signals(thread, None), Delivery::Parked(None)));
    t.host.send_signal(t.process, user(c::SIGTERM));
    t.host.send_signal(t.process, user(c::SIGUSR1));
    assert!(matches!(t.host.threads[thread.0].state, ThreadState::Stopped));
    t.host.send_signal(t.process, user(c::SIGCONT));
    assert!(matches!(t.host.threads[thread.0].state, ThreadState::Runnable));
    assert!(matches!(t.host.deliver_signals(thread, None), Delivery::Gone));
}

#[test]
fn a_fault_that_is_blocked_kills_and_names_the_program() {
    let (mut t, thread) = with_handler(c::SIGSEGV, 0);
    t.host.set_blocked(thread, sig_bit(c::SIGSEGV));
    let fault = belljar_machine::Fault { signal: c::SIGSEGV, code: 1, addr: 0x10, trapno: 14, error_code: 6 };
    t.host.threads.raise_fault(&mut t.host.processes, thread, fault);
    assert!(matches!(t.host.deliver_signals(thread, None), Delivery::Gone));
    assert!(t.host.warnings().keys().any(|text| text.contains("SIGSEGV") && text.contains("0x10")));
}
