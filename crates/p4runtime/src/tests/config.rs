//! Forwarding pipeline configs.

use super::builders::*;
use super::{World, info};
use crate::pipeline::Pipeline;
use crate::proto::{
    CapabilitiesRequest, CapabilitiesResponse, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, PipelineAction, SetForwardingPipelineConfigRequest,
    SetForwardingPipelineConfigResponse,
};

fn get(world: &mut World, response_type: i32) -> GetForwardingPipelineConfigResponse {
    let request = GetForwardingPipelineConfigRequest { device_id: 1, response_type };
    world.call(0, "GetForwardingPipelineConfig", &request).unwrap()
}

#[test]
fn a_config_is_verified_saved_and_committed() {
    let mut world = World::empty();
    world.controller();
    assert_eq!(get(&mut world, 0).config, None);
    let stream = world.open(0);
    let status = world.set_config(0, 1, PipelineAction::VerifyAndCommit, Some("{}")).unwrap_err();
    assert_eq!(status.code, 7);
    world.arbitrate(0, stream, 1);
    assert_eq!(world.set_config(0, 1, PipelineAction::Commit, None).unwrap_err().code, 5);
    world.set_config(0, 1, PipelineAction::Verify, Some("{}")).unwrap();
    assert!(world.device.pipeline.is_none());
    assert_eq!(get(&mut world, 0).config, None);
    for (action, json) in [
        (PipelineAction::Unspecified, Some("{}")),
        (PipelineAction::Verify, None),
        (PipelineAction::Verify, Some("nonsense")),
        (PipelineAction::Verify, Some("")),
        (PipelineAction::Commit, Some("{}")),
    ] {
        assert_eq!(world.set_config(0, 1, action, json).unwrap_err().code, 3, "{action:?} {json:?}");
    }

    // Writes after a config was saved apply to that config; the switch gets them on commit.
    world.set_config(0, 1, PipelineAction::VerifyAndCommit, Some("{1}")).unwrap();
    world.write(insert(table(route(1, 1)))).unwrap();
    world.set_config(0, 1, PipelineAction::VerifyAndSave, Some("{2}")).unwrap();
    assert_eq!(world.model().config, b"{1}");
    assert_eq!(world.read(all(ROUTE)).unwrap(), []);
    world.write(insert(table(route(2, 2)))).unwrap();
    assert_eq!(world.model().entries.len(), 3);
    world.set_config(0, 1, PipelineAction::Commit, None).unwrap();
    assert_eq!(world.model().config, b"{2}");
    assert_eq!(world.read(all(ROUTE)).unwrap(), [table(route(2, 2))]);
    // A commit clears the state.
    world.set_config(0, 1, PipelineAction::VerifyAndCommit, Some("{3}")).unwrap();
    assert_eq!(world.read(all(ROUTE)).unwrap(), []);
}

#[test]
fn a_config_can_take_over_the_state() {
    let mut world = World::new();
    world.write(insert(table(route(1, 1)))).unwrap();
    world.write(insert(table(rule(1, 5)))).unwrap();
    let initial = world.read(all(INITIAL)).unwrap();
    world.write(delete(initial[0].clone())).unwrap();
    world.set_config(0, 1, PipelineAction::ReconcileAndCommit, Some("{4}")).unwrap();
    assert_eq!(world.model().config, b"{4}");
    assert_eq!(world.read(all(ROUTE)).unwrap(), [table(route(1, 1))]);
    assert_eq!(world.read(all(ACL)).unwrap(), [table(rule(1, 5))]);
    assert_eq!(world.read(all(INITIAL)).unwrap(), []);
    assert_eq!(world.read(all(CONSTANT)).unwrap().len(), 1);

    // A program that lacks the table is rejected, and the running program stays.
    let mut smaller = info();
    smaller.tables.retain(|table| table.preamble.as_ref().unwrap().id != ROUTE);
    let config = crate::proto::ForwardingPipelineConfig {
        p4info: Some(smaller),
        p4_device_config: b"{5}".to_vec(),
        cookie: None,
    };
    let request = SetForwardingPipelineConfigRequest {
        device_id: 1,
        election_id: Some(1.into()),
        action: PipelineAction::ReconcileAndCommit as i32,
        config: Some(config),
        ..SetForwardingPipelineConfigRequest::default()
    };
    let status = world
        .call::<SetForwardingPipelineConfigResponse>(0, "SetForwardingPipelineConfig", &request)
        .unwrap_err();
    assert_eq!(
        (status.code, status.message.as_str()),
        (3, "the state cannot be preserved: P4Info has no table 0x02000001")
    );
    assert_eq!(world.model().config, b"{4}");
}

#[test]
fn p4info_must_describe_the_program() {
    let mut world = World::new();
    let mut set = |change: fn(&mut belljar_p4info::proto::P4Info)| {
        let mut p4info = info();
        change(&mut p4info);
        let config = crate::proto::ForwardingPipelineConfig {
            p4info: Some(p4info),
            p4_device_config: b"{}".to_vec(),
            cookie: None,
        };
        let request = SetForwardingPipelineConfigRequest {
            device_id: 1,
            election_id: Some(1.into()),
            action: PipelineAction::VerifyAndCommit as i32,
            config: Some(config),
            ..SetForwardingPipelineConfigRequest::default()
        };
        let status = world
            .call::<SetForwardingPipelineConfigResponse>(0, "SetForwardingPipelineConfig", &request)
            .unwrap_err();
        assert_eq!(status.code, 3);
        status.message
    };
    assert_eq!(
        set(|info| info.actions[2].preamble.as_mut().unwrap().name = "unknown".to_string()),
        "P4Info and the device configuration do not belong together: the latter has no action 'unknown' with 0 parameters"
    );
    assert_eq!(
        set(|info| info.actions.clear()),
        "table 'c.route' refers to action 0x01000001, which P4Info does not have"
    );
    assert_eq!(
        set(|info| info.tables[1].preamble = info.tables[0].preamble.clone()),
        "id 0x02000001 occurs twice in P4Info"
    );
    assert_eq!(set(|info| info.counters[0].preamble = None), "an object in P4Info has no id");
}

#[test]
fn an_action_profile_that_no_table_uses_is_none() {
    let mut p4info = info();
    let mut unused = p4info.action_profiles[0].clone();
    let preamble = unused.preamble.as_mut().unwrap();
    (preamble.id, preamble.name) = (0x1100_00ff, "unknown".to_string());
    p4info.action_profiles.push(unused);
    let before = belljar_p4info::Objects::new(&info()).unwrap();
    let objects = belljar_p4info::Objects::new(&p4info).unwrap();
    assert_eq!(objects.profiles.keys().collect::<Vec<_>>(), before.profiles.keys().collect::<Vec<_>>());
    objects.check(|object| super::model::Model::default().has(object)).unwrap();
}

#[test]
fn a_config_is_read_in_parts() {
    let mut world = World::new();
    for (kind, has_info, json) in [(0, true, &b"{}"[..]), (1, false, b""), (2, true, b""), (3, false, b"{}")]
    {
        let config = get(&mut world, kind).config.unwrap();
        assert_eq!((config.p4info.is_some(), &config.p4_device_config[..]), (has_info, json), "{kind}");
        assert_eq!(config.cookie.unwrap().cookie, 42);
    }
    assert_eq!(get(&mut world, 0).config.unwrap().p4info, Some(info()));
}

#[test]
fn device_configurations_may_be_wrapped_and_long() {
    let mut world = World::new();
    // reassign: true, device_data: "{}"
    world.set_config(0, 1, PipelineAction::VerifyAndCommit, Some("\x08\x01\x1a\x02{}")).unwrap();
    assert_eq!(world.model().config, b"{}");
    let long = format!("{{{}}}", " ".repeat(20 << 20));
    world.set_config(0, 1, PipelineAction::VerifyAndCommit, Some(&long)).unwrap();
    assert_eq!(world.model().config, long.as_bytes());
    assert_eq!(get(&mut world, 0).config.unwrap().p4_device_config, long.as_bytes());
}

#[test]
fn capabilities() {
    let mut world = World::new();
    let response: CapabilitiesResponse =
        world.call(0, "Capabilities", &CapabilitiesRequest::default()).unwrap();
    assert_eq!(response.p4runtime_api_version, "1.3.0");
    let status = world
        .call::<CapabilitiesResponse>(0, "Capabilities", &CapabilitiesRequest { device_id: 7 })
        .unwrap_err();
    assert_eq!(status.code, 5);
    let status =
        world.call::<CapabilitiesResponse>(0, "Nonsense", &CapabilitiesRequest::default()).unwrap_err();
    assert_eq!((status.code, status.message.as_str()), (12, "there is no method /p4.v1.P4Runtime/Nonsense"));
}
