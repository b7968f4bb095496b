//! Link: the state of both ends of the exchange between the first host and another one, without sockets and clocks.
//!
//! Orders are carried out once each, in their order, and reports are seen once each, in their order, whatever is lost, comes late or comes twice. Only an end that
//! starts again forgets: a new epoch or incarnation begins with nothing done and nothing seen.

use crate::message::{Answer, Order, Report, Request};
use belljar_base::Set;
use std::collections::VecDeque;

/// End of the first host.
#[derive(Debug)]
pub struct Leading {
    epoch: u64,
    /// Incarnation of the other end; 0 before its first answer
    incarnation: u64,
    past: Set<u64>,
    orders: VecDeque<Order>,
    done: u64,
    seen: u64,
}

/// News of the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It has answered for the first time.
    Joined,
    /// It has started again: its commands are gone, and orders that were not done are forgotten.
    Restarted,
    Report(Report),
}

impl Leading {
    pub fn new(epoch: u64) -> Leading {
        Leading { epoch, incarnation: 0, past: Set::new(), orders: VecDeque::new(), done: 0, seen: 0 }
    }

    pub fn push(&mut self, order: Order) {
        self.orders.push_back(order);
    }

    /// Whether all orders are done.
    pub fn is_idle(&self) -> bool {
        self.orders.is_empty()
    }

    /// The request that is to be sent, again and again.
    pub fn request(&self) -> Request {
        let order = self.orders.front().filter(|_| self.incarnation != 0).cloned();
        let number = self.done + u64::from(order.is_some());
        Request { epoch: self.epoch, incarnation: self.incarnation, seen: self.seen, number, order }
    }

    /// Takes an answer.
    pub fn take(&mut self, answer: Answer) -> Vec<News> {
        let mut news = Vec::new();
        if answer.epoch != self.epoch || self.past.contains(&answer.incarnation) {
            return news;
        }
        if answer.incarnation != self.incarnation {
            if self.incarnation == 0 {
                news.push(News::Joined);
            } else {
                self.past.insert(self.incarnation);
                self.orders.clear();
                news.push(News::Restarted);
            }
            (self.incarnation, self.done, self.seen) = (answer.incarnation, 0, 0);
        }
        if answer.done == self.done + 1 {
            self.orders.pop_front();
            self.done = answer.done;
        }
        for (number, report) in (answer.first..).zip(answer.reports) {
            if number == self.seen + 1 {
                self.seen = number;
                news.push(News::Report(report));
            }
        }
        news
    }
}

/// End of another host.
#[derive(Debug)]
pub struct Following {
    /// Epoch of the first host; 0 before its first request
    epoch: u64,
    incarnation: u64,
    past: Set<u64>,
    done: u64,
    /// Number of the first report that has not been seen
    first: u64,
    reports: VecDeque<Report>,
}

/// Consequence of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is of an earlier epoch, and is not answered.
    Stale,
    /// It is answered.
    Known(Option<Order>),
    /// The first host has started again: all commands end, and the request is answered.
    Restarted,
}

impl Following {
    pub fn new(incarnation: u64) -> Following {
        Following { epoch: 0, incarnation, past: Set::new(), done: 0, first: 1, reports: VecDeque::new() }
    }

    pub fn report(&mut self, report: Report) {
        self.reports.push_back(report);
    }

    pub fn answer(&self) -> Answer {
        Answer {
            epoch: self.epoch,
            incarnation: self.incarnation,
            done: self.done,
            first: self.first,
            reports: self.reports.iter().cloned().collect(),
        }
    }

    /// Takes a request.
    pub fn take(&mut self, request: Request) -> Taken {
        if self.past.contains(&request.epoch) {
            return Taken::Stale;
        }
        if request.epoch != self.epoch {
            let is_restart = self.epoch != 0;
            self.past.insert(self.epoch);
            (self.epoch, self.done, self.first) = (request.epoch, 0, 1);
            self.reports.clear();
            if is_restart {
                return Taken::Restarted;
            }
        }
        if request.incarnation != self.incarnation {
            return Taken::Known(None);
        }
        while self.first <= request.seen && self.reports.pop_front().is_some() {
            self.first += 1;
        }
        match request.order {
            Some(order) if request.number == self.done + 1 => {
                self.done = request.number;
                Taken::Known(Some(order))
            }
            _ => Taken::Known(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::Ended;
    use belljar_base::Seed;

    fn start(id: u64) -> Order {
        Order::Start { id, name: "driver".to_owned() }
    }

    fn ended(id: u64) -> Report {
        Report::Ended(Ended { id, status: "exit status: 0".to_owned() })
    }

    #[test]
    fn orders_and_reports_arrive_once_and_in_order_over_a_bad_network() {
        for seed in 0..200 {
            let mut random = Seed(seed).stream(&["link"]);
            let (mut leading, mut following) = (Leading::new(5), Following::new(6));
            (0..30).for_each(|id| leading.push(start(id)));
            let (mut requests, mut answers) = (Vec::new(), Vec::new());
            let (mut carried_out, mut reported, mut joined) = (Vec::new(), Vec::new(), 0);
            for _ in 0..5000 {
                // Messages wait in a heap from which any is taken, and some stay there: they are late, or come twice.
                requests.push(leading.request());
                answers.push(following.answer());
                if random.below(2) == 0 {
                    let request: Request = requests[random.below(requests.len() as u64) as usize].clone();
                    if let Taken::Known(Some(Order::Start { id, .. })) = following.take(request) {
                        carried_out.push(id);
                        following.report(ended(id));
                    }
                    answers.push(following.answer());
                }
                if random.below(2) == 0 {
                    let answer: Answer = answers[random.below(answers.len() as u64) as usize].clone();
                    for news in leading.take(answer) {
                        match news {
                            News::Report(Report::Ended(end)) => reported.push(end.id),
                            News::Joined => joined += 1,
                            other => panic!("{other:?}"),
                        }
                    }
                }
                for heap in [requests.len(), answers.len()] {
                    assert!(heap < 20_000);
                }
                if requests.len() > 12 {
                    requests.remove(random.below(12) as usize);
                }
                if answers.len() > 12 {
                    answers.remove(random.below(12) as usize);
                }
            }
            assert_eq!(carried_out, (0..30).collect::<Vec<_>>(), "seed {seed}");
            assert_eq!((reported, joined), (carried_out, 1), "seed {seed}");
            assert!(leading.is_idle());
        }
    }

    /// Passes a request and its answer.
    fn exchange(leading: &mut Leading, following: &mut Following) -> (Taken, Vec<News>) {
        let taken = following.take(leading.request());
        (taken, leading.take(following.answer()))
    }

    #[test]
    fn a_host_that_starts_again_has_no_old_orders() {
        let (mut leading, mut following) = (Leading::new(5), Following::new(6));
        exchange(&mut leading, &mut following);
        leading.push(start(1));
        leading.push(start(2));
        assert_eq!(exchange(&mut leading, &mut following).0, Taken::Known(Some(start(1))));
        let late = following.answer();
        let mut again = Following::new(7);
        let (taken, news) = exchange(&mut leading, &mut again);
        assert_eq!((taken, news), (Taken::Known(None), vec![News::Restarted]));
        assert!(leading.is_idle());
        // An answer of before is late.
        assert_eq!(leading.take(late), []);
        leading.push(start(3));
        assert_eq!(exchange(&mut leading, &mut again).0, Taken::Known(Some(start(3))));
    }

    #[test]
    fn a_first_host_that_starts_again_is_followed_and_its_old_requests_are_not() {
        let (mut leading, mut following) = (Leading::new(5), Following::new(6));
        exchange(&mut leading, &mut following);
        following.report(ended(1));
        let late = leading.request();
        let mut again = Leading::new(8);
        assert_eq!(exchange(&mut again, &mut following), (Taken::Restarted, vec![News::Joined]));
        assert_eq!(following.take(late), Taken::Stale);
        again.push(start(1));
        assert_eq!(exchange(&mut again, &mut following), (Taken::Known(Some(start(1))), vec![]));
    }
}
