//! Batches of updates and their atomicity.

use super::Forwarding;
use crate::grpc::{Code, Status};
use crate::pipeline::Pipeline;
use crate::proto::{Atomicity, Update};
use crate::refusal::Refusal;

impl<P: Pipeline> Forwarding<'_, P> {
    /// Executes a batch. The switch processes no packet meanwhile, so an all-or-nothing batch is atomic for
    /// packets too.
    pub fn batch(&mut self, updates: &[Update], atomicity: Atomicity) -> Result<(), Status> {
        let mut results: Vec<Result<(), Refusal>> = Vec::with_capacity(updates.len());
        let mut undo = Vec::new();
        let all_or_nothing = atomicity != Atomicity::ContinueOnError;
        for update in updates {
            match self.update(update) {
                Ok(back) if all_or_nothing => {
                    undo.push(back);
                    results.push(Ok(()));
                }
                Ok(_) => results.push(Ok(())),
                Err(refusal) => {
                    results.push(Err(refusal));
                    if all_or_nothing {
                        break;
                    }
                }
            }
        }
        let failed = results.iter().filter(|result| result.is_err()).count();
        if failed == 0 {
            return Ok(());
        }
        if all_or_nothing {
            let lost = self.roll_back(undo);
            let aborted = || {
                Err(Refusal::new(Code::Aborted, "rolled back or not tried, because another update failed"))
            };
            for result in results.iter_mut().filter(|result| result.is_ok()) {
                *result = aborted();
            }
            results.resize_with(updates.len(), aborted);
            if let Some(refusal) = lost {
                return Err(Status::new(
                    Code::Internal,
                    format!("an update could not be rolled back: {refusal}"),
                ));
            }
        }
        let details = results
            .iter()
            .map(|result| match result {
                Ok(()) => Default::default(),
                Err(refusal) => refusal.to_error(),
            })
            .collect();
        Err(Status {
            code: Code::Unknown,
            message: format!("{failed} of {} updates failed", updates.len()),
            details,
        })
    }

    /// Reverts updates in reverse order; returns the first failure to revert.
    fn roll_back(&mut self, undo: Vec<Vec<Update>>) -> Option<Refusal> {
        let mut lost = None;
        for back in undo.into_iter().rev().flatten() {
            if let Err(refusal) = self.update(&back) {
                lost.get_or_insert(refusal);
            }
        }
        lost
    }
}
