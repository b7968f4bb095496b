//! Test fixture: the server with gRPC controllers over pipes, on a model switch without packets.

mod batches;
mod builders;
mod config;
mod entities;
mod entries;
mod model;
mod mutations;
mod noise;
mod streams;
mod thrift;

use crate::Server;
use crate::grpc::client::Client;
use crate::pipeline::Device;
use crate::proto::stream_message_response::Update as Told;
use crate::proto::{
    self, Atomicity, Cookie, Entity, Error, ForwardingPipelineConfig, MasterArbitrationUpdate,
    PipelineAction, ReadRequest, ReadResponse, SetForwardingPipelineConfigRequest,
    SetForwardingPipelineConfigResponse, StreamMessageRequest, StreamMessageResponse, Update, WriteRequest,
    WriteResponse, entity, stream_message_request,
};
use belljar_p4info::proto::P4Info;
use model::{Model, ModelDevice};
use prost::Message;

/// Server, switch and controllers.
pub struct World<D: Device = ModelDevice> {
    pub server: Server<D>,
    pub device: D,
    clients: Vec<(usize, Client)>,
}

pub fn info() -> P4Info {
    P4Info::from_text(include_str!("fixture.p4info.txtpb")).unwrap()
}

impl World {
    /// World without controllers and without a program.
    pub fn empty() -> Self {
        Self { server: Server::new(1), device: ModelDevice::default(), clients: Vec::new() }
    }

    /// World whose controller 0 is primary and has installed the fixture program.
    pub fn new() -> Self {
        let mut world = Self::empty();
        world.controller();
        let stream = world.open(0);
        world.arbitrate(0, stream, 1);
        world.set_config(0, 1, PipelineAction::VerifyAndCommit, Some("{}")).unwrap();
        world
    }

    pub fn model(&mut self) -> &mut Model {
        self.device.pipeline.as_mut().unwrap()
    }
}

impl<D: Device> World<D> {
    /// Adds a controller; returns its number.
    pub fn controller(&mut self) -> usize {
        self.clients.push((self.server.accept(), Client::new()));
        self.clients.len() - 1
    }

    /// Moves bytes until none remain.
    pub fn run(&mut self) {
        loop {
            let mut moved = 0;
            for (connection, client) in &mut self.clients {
                client.poll();
                let up = client.transmit(self.server.room(*connection));
                self.server.receive(*connection, &up);
                moved += up.len();
            }
            self.server.poll(&mut self.device);
            for (connection, client) in &mut self.clients {
                let down = self.server.transmit(*connection, client.room());
                client.receive(&down);
                client.poll();
                moved += down.len();
            }
            if moved == 0 {
                return;
            }
        }
    }

    pub fn client(&mut self, controller: usize) -> &mut Client {
        &mut self.clients[controller].1
    }

    /// Breaks the connection of a controller.
    pub fn disconnect(&mut self, controller: usize) {
        let (connection, _) = self.clients.remove(controller);
        self.server.close(connection);
        self.run();
    }

    /// Unary call.
    pub fn call<M: Message + Default>(
        &mut self,
        controller: usize,
        method: &str,
        request: &impl Message,
    ) -> Result<M, proto::Status> {
        let client = self.client(controller);
        let call = client.call(method);
        client.send(call, request);
        client.half_close(call);
        self.run();
        let client = self.client(controller);
        let status = client.status(call).cloned().expect("the call has ended");
        match status.code {
            0 => Ok(client.message(call).expect("an answer")),
            _ => Err(status),
        }
    }

    /// Opens a `StreamChannel`.
    pub fn open(&mut self, controller: usize) -> usize {
        self.client(controller).call("StreamChannel")
    }

    pub fn say(&mut self, controller: usize, stream: usize, update: stream_message_request::Update) {
        self.client(controller).send(stream, &StreamMessageRequest { update: Some(update) });
        self.run();
    }

    pub fn arbitrate(&mut self, controller: usize, stream: usize, election: u128) {
        let update = MasterArbitrationUpdate {
            device_id: 1,
            election_id: Some(election.into()),
            ..MasterArbitrationUpdate::default()
        };
        self.say(controller, stream, stream_message_request::Update::Arbitration(update));
    }

    /// Unread messages of a stream.
    pub fn told(&mut self, controller: usize, stream: usize) -> Vec<Told> {
        let client = self.client(controller);
        std::iter::from_fn(|| client.message::<StreamMessageResponse>(stream))
            .map(|response| response.update.unwrap())
            .collect()
    }

    pub fn set_config(
        &mut self,
        controller: usize,
        election: u128,
        action: PipelineAction,
        json: Option<&str>,
    ) -> Result<(), proto::Status> {
        let config = json.map(|json| ForwardingPipelineConfig {
            p4info: Some(info()),
            p4_device_config: json.as_bytes().to_vec(),
            cookie: Some(Cookie { cookie: 42 }),
        });
        let request = SetForwardingPipelineConfigRequest {
            device_id: 1,
            election_id: Some(election.into()),
            action: action as i32,
            config,
            ..SetForwardingPipelineConfigRequest::default()
        };
        self.call::<SetForwardingPipelineConfigResponse>(controller, "SetForwardingPipelineConfig", &request)
            .map(|_| ())
    }

    pub fn write_batch(&mut self, updates: Vec<Update>, atomicity: Atomicity) -> Result<(), proto::Status> {
        let request = WriteRequest {
            device_id: 1,
            election_id: Some(1.into()),
            updates,
            atomicity: atomicity as i32,
            ..WriteRequest::default()
        };
        self.call::<WriteResponse>(0, "Write", &request).map(|_| ())
    }

    /// Writes one update; returns the code and message of a refusal.
    pub fn write(&mut self, update: Update) -> Result<(), (i32, String)> {
        self.write_batch(vec![update], Atomicity::ContinueOnError).map_err(|status| {
            let details = details(&status);
            assert_eq!((status.code, details.len()), (2, 1), "{status:?}");
            (details[0].canonical_code, details[0].message.clone())
        })
    }

    pub fn read_batch(&mut self, entities: Vec<Entity>) -> (Vec<entity::Entity>, proto::Status) {
        let request = ReadRequest { device_id: 1, entities, ..ReadRequest::default() };
        let client = self.client(0);
        let call = client.call("Read");
        client.send(call, &request);
        client.half_close(call);
        self.run();
        let client = self.client(0);
        let status = client.status(call).cloned().expect("the call has ended");
        let found = std::iter::from_fn(|| client.message::<ReadResponse>(call))
            .flat_map(|response| response.entities);
        (found.map(|entity| entity.entity.unwrap()).collect(), status)
    }

    /// Executes one read request; returns the code of a refusal.
    pub fn read(&mut self, request: entity::Entity) -> Result<Vec<entity::Entity>, i32> {
        let (found, status) = self.read_batch(vec![Entity { entity: Some(request) }]);
        match status.code {
            0 => Ok(found),
            _ => Err(details(&status)[0].canonical_code),
        }
    }
}

/// Details of a batch's status.
pub fn details(status: &proto::Status) -> Vec<Error> {
    status.details.iter().map(|any| Error::decode(&any.value[..]).unwrap()).collect()
}
