//! `SetForwardingPipelineConfig` and `GetForwardingPipelineConfig`.

use super::{Program, Server};
use crate::grpc::{Code, Status};
use crate::pipeline::{Device, Pipeline};
use crate::proto::{
    ForwardingPipelineConfig, GetForwardingPipelineConfigRequest, GetForwardingPipelineConfigResponse,
    PipelineAction, ResponseType, SetForwardingPipelineConfigRequest,
};
use crate::refusal::Refusal;
use crate::state::{Forwarding, State};
use belljar_p4info::Objects;
use prost::Message;

/// `p4.tmp.P4DeviceConfig`, in which some controllers wrap the JSON.
#[derive(Clone, PartialEq, Eq, Message)]
struct Wrapped {
    #[prost(bool, tag = "1")]
    reassign: bool,
    #[prost(bytes = "vec", tag = "3")]
    device_data: Vec<u8>,
}

/// JSON contained in a device configuration.
fn json(config: &[u8]) -> Vec<u8> {
    let plain = config.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    match Wrapped::decode(config) {
        Ok(wrapped) if !plain && !wrapped.device_data.is_empty() => wrapped.device_data,
        _ => config.to_vec(),
    }
}

impl<D: Device> Server<D> {
    pub(super) fn set_config(
        &mut self,
        device: &mut D,
        request: SetForwardingPipelineConfigRequest,
    ) -> Result<(), Status> {
        self.check_device(request.device_id)?;
        self.arbitration.check_primary(&request.role, request.role_id, request.election_id)?;
        let action = PipelineAction::try_from(request.action).unwrap_or(PipelineAction::Unspecified);
        match (action, request.config) {
            (PipelineAction::Unspecified, _) => {
                Err(Status::new(Code::InvalidArgument, "the action is not set"))
            }
            (PipelineAction::Commit, Some(_)) => {
                Err(Status::new(Code::InvalidArgument, "COMMIT takes no config: it commits the one saved"))
            }
            (PipelineAction::Commit, None) => {
                let staged = self.staged.take().ok_or_else(|| {
                    Status::new(Code::NotFound, "no config was saved: VERIFY_AND_SAVE comes first")
                })?;
                self.commit(device, staged);
                Ok(())
            }
            (_, None) => Err(Status::new(Code::InvalidArgument, "the config is missing")),
            (action, Some(config)) => {
                let mut loaded = load(device, config)?;
                match action {
                    PipelineAction::Verify => {}
                    PipelineAction::VerifyAndSave => self.staged = Some(loaded),
                    PipelineAction::VerifyAndCommit => self.commit(device, loaded),
                    _ => {
                        self.reconcile(device, &mut loaded)?;
                        self.commit(device, loaded);
                    }
                }
                Ok(())
            }
        }
    }

    /// Installs a program without a controller, as at start-up.
    pub fn install(&mut self, device: &mut D, config: ForwardingPipelineConfig) -> Result<(), Refusal> {
        let loaded = load(device, config)?;
        self.commit(device, loaded);
        Ok(())
    }

    /// Imports state that was configured by other means than P4Runtime, such as start-up files, in the
    /// running program.
    pub fn import(&mut self, device: &mut D) {
        if let (Some(program), Some(pipeline)) = (&mut self.program, device.pipeline()) {
            Forwarding { state: &mut program.state, pipeline }.import();
        }
    }

    fn commit(&mut self, device: &mut D, (program, pipeline): (Program, D::Pipeline)) {
        device.install(pipeline);
        self.staged = None;
        self.program = Some(program);
    }

    /// Replays the state of the running program to its replacement.
    fn reconcile(
        &self,
        device: &mut D,
        (program, pipeline): &mut (Program, D::Pipeline),
    ) -> Result<(), Status> {
        let Some(old) = &self.program else { return Ok(()) };
        let Some(old_pipeline) = device.pipeline() else { return Ok(()) };
        let mut old_state = old.state.clone();
        let updates = Forwarding { state: &mut old_state, pipeline: old_pipeline }.replay()?;
        let mut new = Forwarding { state: &mut program.state, pipeline };
        new.clear_tables(old_state.objects.tables.keys().copied())?;
        let lost = |refusal: Refusal| {
            Status::new(Code::InvalidArgument, format!("the state cannot be preserved: {refusal}"))
        };
        updates.iter().try_for_each(|update| new.update(update).map(|_| ()).map_err(lost))
    }

    pub(super) fn get_config(
        &self,
        request: GetForwardingPipelineConfigRequest,
    ) -> Result<GetForwardingPipelineConfigResponse, Status> {
        self.check_device(request.device_id)?;
        let Some(program) = self.staged.as_ref().map(|(program, _)| program).or(self.program.as_ref()) else {
            return Ok(GetForwardingPipelineConfigResponse::default());
        };
        let all = &program.config;
        let kind = ResponseType::try_from(request.response_type);
        let kind = kind.map_err(|_| Status::new(Code::InvalidArgument, "the response type is unknown"))?;
        let (info, json) = match kind {
            ResponseType::All => (true, true),
            ResponseType::CookieOnly => (false, false),
            ResponseType::P4infoAndCookie => (true, false),
            ResponseType::DeviceConfigAndCookie => (false, true),
        };
        let config = ForwardingPipelineConfig {
            p4info: all.p4info.clone().filter(|_| info),
            p4_device_config: if json { all.p4_device_config.clone() } else { Vec::new() },
            cookie: all.cookie,
        };
        Ok(GetForwardingPipelineConfigResponse { config: Some(config) })
    }
}

/// Loads a program from a config; checks that P4Info and device configuration match.
fn load<D: Device>(device: &D, config: ForwardingPipelineConfig) -> Result<(Program, D::Pipeline), Refusal> {
    let info = config.p4info.as_ref().ok_or_else(|| Refusal::invalid("the config has no P4Info"))?;
    if config.p4_device_config.is_empty() {
        return Err(Refusal::invalid("the config has no device configuration: BMv2's JSON"));
    }
    let objects = Objects::new(info)?;
    let mut pipeline = device.load(&json(&config.p4_device_config))?;
    objects.check(|object| pipeline.has(object))?;
    let mut state = State::new(objects);
    Forwarding { state: &mut state, pipeline: &mut pipeline }.import();
    Ok((Program { config, state }, pipeline))
}
