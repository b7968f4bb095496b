//! Arbitration of controllers: election of each role's primary.
//!
//! A session is one `StreamChannel` call. The primary of a role is the session with the highest election id
//! ever seen for the role. When it disconnects, the role has no primary until a session has at least that
//! election id.

use crate::grpc::{Code, Status};
use crate::proto::{self, MasterArbitrationUpdate, Uint128};
use belljar_base::Map;

/// `StreamChannel` call: connection and number of the call.
pub type SessionId = (usize, usize);

/// Role: its name or, in requests of older clients, its deprecated number. The default role has neither.
pub type RoleId = (String, u64);

/// Maximum number of roles. Roles are never forgotten.
const MAX_ROLES: usize = 256;
/// Maximum number of sessions per role.
const MAX_SESSIONS: usize = 256;

/// Arbitration updates to controllers, in sending order.
pub type Notices = Vec<(SessionId, MasterArbitrationUpdate)>;

#[derive(Debug, Default)]
struct Role {
    /// Highest election id ever seen.
    highest: Option<u128>,
    sessions: Map<SessionId, Option<u128>>,
}

impl Role {
    fn primary(&self) -> Option<SessionId> {
        let highest = self.highest?;
        self.sessions.iter().find(|(_, election)| **election == Some(highest)).map(|(session, _)| *session)
    }
}

/// Sessions of all roles of a device.
#[derive(Debug, Default)]
pub struct Arbitration {
    roles: Map<RoleId, Role>,
    sessions: Map<SessionId, RoleId>,
}

impl Arbitration {
    /// Processes an arbitration update; an error ends the session.
    pub fn update(
        &mut self,
        device_id: u64,
        session: SessionId,
        update: &MasterArbitrationUpdate,
    ) -> Result<Notices, Status> {
        let election = update.election_id.map(u128::from);
        let role_id = update.role.as_ref().map(|role| role_id(&role.name, role.id)).unwrap_or_default();
        let known = self.sessions.get(&session);
        if update.device_id != device_id {
            return Err(match known {
                None => Status::new(
                    Code::NotFound,
                    format!("there is no device {}; this is device {device_id}", update.device_id),
                ),
                Some(_) => {
                    Status::new(Code::FailedPrecondition, "a stream's device cannot be changed: open another")
                }
            });
        }
        if known.is_some_and(|known| *known != role_id) {
            return Err(Status::new(
                Code::FailedPrecondition,
                "a stream's role cannot be changed: open another",
            ));
        }
        if update.role.as_ref().is_some_and(|role| role.config.is_some()) {
            return Err(Status::new(
                Code::InvalidArgument,
                "roles have no configuration here: each has the whole pipeline",
            ));
        }
        if !self.roles.contains_key(&role_id) && self.roles.len() >= MAX_ROLES {
            return Err(Status::new(Code::ResourceExhausted, format!("there are {MAX_ROLES} roles already")));
        }
        let role = self.roles.entry(role_id.clone()).or_default();
        if election.is_some()
            && role.sessions.iter().any(|(other, used)| *other != session && *used == election)
        {
            return Err(Status::new(Code::InvalidArgument, "another controller has this election id"));
        }
        if known.is_none() && role.sessions.len() >= MAX_SESSIONS {
            return Err(Status::new(
                Code::ResourceExhausted,
                format!("the role has {MAX_SESSIONS} controllers already"),
            ));
        }
        let was_primary = role.primary() == Some(session);
        role.sessions.insert(session, election);
        self.sessions.insert(session, role_id.clone());
        let primary = election.is_some() && election >= role.highest;
        if primary {
            role.highest = election;
        }
        let to = if primary || was_primary { None } else { Some(session) };
        Ok(self.notices(device_id, &role_id, to))
    }

    /// Removes a session.
    pub fn leave(&mut self, device_id: u64, session: SessionId) -> Notices {
        let Some(role_id) = self.sessions.remove(&session) else { return Notices::new() };
        let Some(role) = self.roles.get_mut(&role_id) else { return Notices::new() };
        let was_primary = role.primary() == Some(session);
        role.sessions.remove(&session);
        if role.highest.is_none() && role.sessions.is_empty() {
            self.roles.remove(&role_id);
        }
        if was_primary { self.notices(device_id, &role_id, None) } else { Notices::new() }
    }

    /// Arbitration updates for a role's controllers, or for one of them; the primary's comes last.
    fn notices(&self, device_id: u64, role_id: &RoleId, to: Option<SessionId>) -> Notices {
        let Some(role) = self.roles.get(role_id) else { return Notices::new() };
        let primary = role.primary();
        let notice = |session: SessionId| {
            let status = match primary {
                Some(primary) if primary == session => Status::new(Code::Ok, "this controller is primary"),
                Some(_) => Status::new(Code::AlreadyExists, "another controller is primary"),
                None => Status::new(Code::NotFound, "there is no primary controller"),
            };
            let named = *role_id != RoleId::default();
            let update = MasterArbitrationUpdate {
                device_id,
                role: named.then(|| proto::Role { id: role_id.1, name: role_id.0.clone(), config: None }),
                election_id: role.highest.map(Uint128::from),
                status: Some(status.to_proto()),
            };
            (session, update)
        };
        let mut sessions: Vec<_> =
            role.sessions.keys().copied().filter(|session| to.is_none_or(|to| to == *session)).collect();
        sessions.sort_by_key(|session| (primary == Some(*session), *session));
        sessions.into_iter().map(notice).collect()
    }

    /// Checks by the election id that a request comes from the primary of a role.
    pub fn check_primary(&self, role: &str, number: u64, election: Option<Uint128>) -> Result<(), Status> {
        let role_id = role_id(role, number);
        let role = match self.roles.get(&role_id) {
            Some(role) => role,
            None if role_id == RoleId::default() => return Err(not_primary()),
            None => return Err(Status::new(Code::NotFound, "no controller has this role")),
        };
        match election.map(u128::from) {
            Some(election) if role.highest == Some(election) && role.primary().is_some() => Ok(()),
            _ => Err(not_primary()),
        }
    }

    /// True if the session is the primary of its role.
    pub fn is_primary(&self, session: SessionId) -> bool {
        self.sessions.get(&session).and_then(|role| self.roles.get(role)).and_then(Role::primary)
            == Some(session)
    }

    /// Primary of each role.
    pub fn primaries(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.roles.values().filter_map(Role::primary)
    }
}

fn not_primary() -> Status {
    Status::new(Code::PermissionDenied, "not the primary controller")
}

fn role_id(name: &str, number: u64) -> RoleId {
    if name.is_empty() { (String::new(), number) } else { (name.to_string(), 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(election: impl Into<Option<u128>>) -> MasterArbitrationUpdate {
        MasterArbitrationUpdate {
            device_id: 1,
            election_id: election.into().map(Uint128::from),
            ..MasterArbitrationUpdate::default()
        }
    }

    /// Session, status code and election id of each update.
    fn told(notices: Notices) -> Vec<(usize, i32, Option<u128>)> {
        let one = |(session, update): (SessionId, MasterArbitrationUpdate)| {
            (session.0, update.status.unwrap().code, update.election_id.map(u128::from))
        };
        notices.into_iter().map(one).collect()
    }

    #[test]
    fn a_second_controller_takes_over_and_goes() {
        let mut arbitration = Arbitration::default();
        let high = 1 << 64;
        assert_eq!(told(arbitration.update(1, (0, 0), &update(5)).unwrap()), [(0, 0, Some(5))]);
        assert_eq!(told(arbitration.update(1, (1, 0), &update(4)).unwrap()), [(1, 6, Some(5))]);
        assert_eq!(
            told(arbitration.update(1, (1, 0), &update(high)).unwrap()),
            [(0, 6, Some(high)), (1, 0, Some(high))]
        );
        assert!(arbitration.is_primary((1, 0)) && !arbitration.is_primary((0, 0)));
        assert!(arbitration.check_primary("", 0, Some(high.into())).is_ok());
        assert_eq!(
            arbitration.check_primary("", 0, Some(5.into())).unwrap_err().code,
            Code::PermissionDenied
        );
        // After the primary disconnects, a role has no primary until a session has as high an election id.
        assert_eq!(told(arbitration.leave(1, (1, 0))), [(0, 5, Some(high))]);
        assert_eq!(
            arbitration.check_primary("", 0, Some(high.into())).unwrap_err().code,
            Code::PermissionDenied
        );
        assert_eq!(told(arbitration.update(1, (0, 0), &update(7)).unwrap()), [(0, 5, Some(high))]);
        assert_eq!(told(arbitration.update(1, (0, 0), &update(high)).unwrap()), [(0, 0, Some(high))]);
        // The primary becomes a backup by lowering its election id.
        assert_eq!(told(arbitration.update(1, (0, 0), &update(1)).unwrap()), [(0, 5, Some(high))]);
    }

    #[test]
    fn a_controller_without_an_election_id_is_never_primary() {
        let mut arbitration = Arbitration::default();
        assert_eq!(told(arbitration.update(1, (0, 0), &update(None)).unwrap()), [(0, 5, None)]);
        assert_eq!(
            told(arbitration.update(1, (1, 0), &update(0)).unwrap()),
            [(0, 6, Some(0)), (1, 0, Some(0))]
        );
        assert_eq!(arbitration.check_primary("", 0, None).unwrap_err().code, Code::PermissionDenied);
    }

    #[test]
    fn roles_have_primaries_of_their_own() {
        let mut arbitration = Arbitration::default();
        let role = |name: &str, election: u128| MasterArbitrationUpdate {
            role: Some(proto::Role { name: name.to_string(), ..proto::Role::default() }),
            ..update(election)
        };
        arbitration.update(1, (0, 0), &role("a", 9)).unwrap();
        let notices = arbitration.update(1, (1, 0), &role("b", 1)).unwrap();
        assert_eq!(notices[0].1.role.as_ref().unwrap().name, "b");
        assert_eq!(told(notices), [(1, 0, Some(1))]);
        assert_eq!(arbitration.primaries().count(), 2);
        assert!(arbitration.check_primary("b", 0, Some(1.into())).is_ok());
        assert_eq!(arbitration.check_primary("c", 0, Some(1.into())).unwrap_err().code, Code::NotFound);
        assert_eq!(
            arbitration.check_primary("", 0, Some(1.into())).unwrap_err().code,
            Code::PermissionDenied
        );
    }

    #[test]
    fn refusals_have_the_codes_of_the_specification() {
        let mut arbitration = Arbitration::default();
        let code = |result: Result<Notices, Status>| result.unwrap_err().code;
        assert_eq!(code(arbitration.update(2, (0, 0), &update(1))), Code::NotFound);
        arbitration.update(1, (0, 0), &update(1)).unwrap();
        assert_eq!(code(arbitration.update(1, (1, 0), &update(1))), Code::InvalidArgument);
        assert_eq!(code(arbitration.update(2, (0, 0), &update(1))), Code::FailedPrecondition);
        let mut other = update(1);
        other.role = Some(proto::Role { name: "other".to_string(), ..proto::Role::default() });
        assert_eq!(code(arbitration.update(1, (0, 0), &other)), Code::FailedPrecondition);
        other.role.as_mut().unwrap().config = Some(Default::default());
        assert_eq!(code(arbitration.update(1, (2, 0), &other)), Code::InvalidArgument);
    }
}
