//! Cells within one process.

use crate::tests::{NEAR, Toy, Trace, clusters, options, toys, trace};
use crate::*;
use std::sync::{Barrier, Mutex};

/// Exchange between cells: each deposits its messages and collects its own after all have deposited.
struct Table {
    barrier: Barrier,
    left: Mutex<Left>,
}

type Left = (Vec<CellStatus>, Vec<(u32, Outgoing<u64>)>);

struct Seat<'t> {
    table: &'t Table,
    me: u32,
}

impl Exchange<u64> for Seat<'_> {
    fn send(&self, sent: &mut Vec<(u32, Outgoing<u64>)>) {
        self.table.left.lock().unwrap().1.append(sent);
    }

    fn synchronize(
        &self,
        mine: CellStatus,
        received: &mut Vec<Outgoing<u64>>,
    ) -> Result<CellStatus, PeersGone> {
        self.table.left.lock().unwrap().0.push(mine);
        self.table.barrier.wait();
        let all = {
            let mut left = self.table.left.lock().unwrap();
            let (mine, others) = left.1.drain(..).partition::<Vec<_>, _>(|(to, _)| *to == self.me);
            left.1 = others;
            received.extend(mine.into_iter().map(|(_, message)| message));
            left.0.iter().copied().reduce(CellStatus::with).unwrap()
        };
        if self.table.barrier.wait().is_leader() {
            self.table.left.lock().unwrap().0.clear();
        }
        self.table.barrier.wait();
        Ok(all)
    }
}

fn in_cells(
    plan: &Plan,
    nodes: impl Fn() -> Vec<Toy> + Sync,
    cells: u32,
    options: &Options<'_>,
    stop: SimTime,
    verdict: impl Fn(u32) -> Verdict + Sync,
) -> (Vec<(Ending, SimTime)>, Trace) {
    let of_group: Vec<u32> = (0..plan.groups().len() as u32).map(|group| group % cells).collect();
    let table = Table { barrier: Barrier::new(cells as usize), left: Mutex::default() };
    let run = |me: u32| {
        let mine = |id: &HostId| of_group[plan.place(*id).unit as usize] == me;
        let nodes = nodes().into_iter().map(|toy| (toy.id, toy)).filter(|(id, _)| mine(id));
        let mut engine = Engine::of_cell(nodes, plan.clone());
        let exchange = Seat { table: &table, me };
        let cell = Cell { me, of_group: &of_group, exchange: &exchange };
        let ending = engine.run_in(Some(cell), stop, options, |_| verdict(me));
        ((ending, engine.committed()), engine.into_nodes())
    };
    let (mut endings, mut seen) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        let run = &run;
        for cell in (0..cells).map(|me| scope.spawn(move || run(me))).collect::<Vec<_>>() {
            let (ending, nodes) = cell.join().unwrap();
            endings.push(ending);
            seen.extend(nodes);
        }
    });
    seen.sort_by_key(|(id, _)| *id);
    (endings, seen.into_iter().map(|(_, toy)| toy.seen).collect())
}

#[test]
fn cells_make_no_difference() {
    let expected = trace(Plan::uniform(20, NEAR), &options(1, true));
    let stop = SimTime::from_secs(1);
    for plan in [Plan::uniform(20, NEAR), clusters(20)] {
        for (cells, workers) in [(1, 1), (2, 1), (3, 2), (5, 1)] {
            let nodes = || toys(20, 200);
            let (endings, seen) =
                in_cells(&plan, nodes, cells, &options(workers, true), stop, |_| Verdict::Continue);
            assert_eq!(seen, expected, "{cells} cells of {workers} workers");
            assert!(endings.iter().all(|ending| *ending == (Ending::StopTime, stop)), "{endings:?}");
        }
    }
}

#[test]
fn all_cells_end_when_the_last_has_finished_or_one_is_told_to_stop() {
    let plan = Plan::uniform(8, NEAR);
    let end = SimTime::from_nanos(700_000);
    let resting = || {
        let mut nodes = toys(8, u64::MAX);
        nodes.iter_mut().for_each(|toy| toy.rest = Some(SimTime::from_nanos(500_000)));
        nodes[7].rest = Some(end);
        nodes
    };
    let stop = SimTime::from_secs(60);
    let (endings, _) = in_cells(&plan, resting, 3, &options(1, true), stop, |_| Verdict::Continue);
    assert_eq!(endings, [(Ending::AllFinished, end + LINGER); 3]);

    let told = |me| if me == 2 { Verdict::Stop } else { Verdict::Continue };
    let (endings, _) = in_cells(&plan, || toys(8, 100), 3, &options(1, true), stop, told);
    assert!(endings.iter().all(|ending| *ending == endings[0] && ending.0 == Ending::Stopped), "{endings:?}");
}
