//! Traffic models on a host with programs; both use its stack.

use crate::host::Host;
use crate::ids::SocketKey;
use crate::timer::TimerAction;
use belljar_base::SimTime;
use belljar_model_host::{ModelTimer, Models, Owner};
use belljar_tasks::waits::Waiter;

impl Owner for Host {
    fn models(&self) -> &Models {
        &self.models
    }
    fn models_mut(&mut self) -> &mut Models {
        &mut self.models
    }
    fn watch(&mut self, socket: SocketKey) {
        self.waits.enter(socket.into(), Waiter::Model(socket));
    }
    fn unwatch(&mut self, socket: SocketKey) {
        self.waits.leave(socket.into(), Waiter::Model(socket));
    }
    fn add_timer(&mut self, at: SimTime, timer: ModelTimer) {
        self.set_timer(at, TimerAction::Model(timer));
    }
}
