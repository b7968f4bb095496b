//! The objects of a program by their ids, as P4Info gives them.

mod data_type;

pub use data_type::DataType;

use crate::check::Object;
use crate::error::{Error, Missing};
use crate::proto::{
    Action, ActionParam, ActionProfile, CounterUnit, FieldMatchType, IdleTimeoutBehavior, MatchField,
    MatchType, MeterType, P4Info, P4NamedType, P4TypeInfo, Preamble, Representation, Scope, SdnType,
    SizeSemantics,
};
use belljar_base::{Map, Set};

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Id.
    pub id: u32,
    /// Full name.
    pub name: String,
    /// Fields of the key.
    pub fields: Vec<Field>,
    /// Scopes of the actions, by the actions' ids.
    pub actions: Map<u32, Scope>,
    /// True if the default action cannot be changed.
    pub default_is_const: bool,
    /// Id of the action profile that implements the table.
    pub profile: Option<u32>,
    /// True if entries have counters.
    pub has_counter: bool,
    /// True if entries have meters.
    pub has_meter: bool,
    /// True if entries may have idle timeouts.
    pub has_idle_timeout: bool,
    /// True if entries cannot be changed.
    pub is_const: bool,
}

impl Table {
    /// True if entries need a priority.
    pub fn needs_priority(&self) -> bool {
        self.fields
            .iter()
            .any(|field| matches!(field.kind, MatchType::Ternary | MatchType::Range | MatchType::Optional))
    }
}

/// A field of a table's or a value set's key.
#[derive(Clone, Debug)]
pub struct Field {
    /// Id within the key.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Bits.
    pub width: u32,
    /// Kind of match.
    pub kind: MatchType,
}

/// A named value: a parameter of an action or a field of a packet-in or packet-out header.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Id within the action or header.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Bits.
    pub width: u32,
}

/// An action.
#[derive(Clone, Debug)]
pub struct ActionInfo {
    /// Full name.
    pub name: String,
    /// Parameters.
    pub parameters: Vec<Parameter>,
}

/// An action profile or selector.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Full name.
    pub name: String,
    /// True if members form groups.
    pub has_selector: bool,
    /// Ids of the actions that members may have.
    pub actions: Set<u32>,
    /// Maximum number of members, or of the sum of their weights.
    pub size: i64,
    /// Maximum number of members of a group, or of the sum of their weights; 0 if only `size` limits groups.
    pub max_group_size: i32,
    /// Maximum weight of a member (0 for any), if the sizes count members; `None` if they count weights.
    pub max_member_weight: Option<i32>,
    /// True if members of groups have no weights.
    pub weights_disallowed: bool,
}

/// A counter, a meter, a register, a value set or another array.
#[derive(Clone, Debug)]
pub struct Array<T> {
    /// Full name.
    pub name: String,
    /// Number of elements.
    pub size: i64,
    /// Description of an element.
    pub kind: T,
}

/// The objects of a program.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Tables.
    pub tables: Map<u32, Table>,
    /// Actions.
    pub actions: Map<u32, ActionInfo>,
    /// Action profiles and selectors that tables use.
    pub profiles: Map<u32, Profile>,
    /// Indirect counters.
    pub counters: Map<u32, Array<CounterUnit>>,
    /// Direct counters: the ids of their tables.
    pub direct_counters: Map<u32, u32>,
    /// Indirect meters.
    pub meters: Map<u32, Array<MeterType>>,
    /// Direct meters: the ids of their tables, and their kinds.
    pub direct_meters: Map<u32, (u32, MeterType)>,
    /// Registers and their types; `None` for a type that is not supported.
    pub registers: Map<u32, Array<Option<DataType>>>,
    /// Value sets of parsers.
    pub value_sets: Map<u32, Array<Vec<Field>>>,
    /// Digests: name and type of a sample.
    pub digests: Map<u32, (String, Option<DataType>)>,
    /// The header of packets to controllers.
    pub packet_in: Option<Vec<Parameter>>,
    /// The header of packets from controllers.
    pub packet_out: Option<Vec<Parameter>>,
    action_ids: Map<String, u32>,
}

impl Objects {
    /// Reads P4Info; a program that a controller could not address is refused.
    pub fn new(info: &P4Info) -> Result<Self, Error> {
        let mut objects = Self::default();
        let mut ids = Set::new();
        let types = info.type_info.clone().unwrap_or_default();
        let mut named = |preamble: &Option<Preamble>| named(&mut ids, preamble.as_ref());
        for action in &info.actions {
            let (id, name) = named(&action.preamble)?;
            let parameters = parameters(action, &types).map_err(|error| error.at(&name))?;
            objects.action_ids.insert(name.clone(), id);
            objects.actions.insert(id, ActionInfo { name, parameters });
        }
        for profile in &info.action_profiles {
            let (id, name) = named(&profile.preamble)?;
            objects.profiles.insert(id, new_profile(profile, name));
        }
        for counter in &info.counters {
            let (id, name) = named(&counter.preamble)?;
            let kind = counter.spec.as_ref().map_or(CounterUnit::Unspecified, |spec| spec.unit());
            objects.counters.insert(id, Array { name, size: counter.size, kind });
        }
        for meter in &info.meters {
            let (id, name) = named(&meter.preamble)?;
            let kind = meter.spec.as_ref().map_or(MeterType::TwoRateThreeColor, |spec| spec.r#type());
            objects.meters.insert(id, Array { name, size: meter.size, kind });
        }
        for counter in &info.direct_counters {
            objects.direct_counters.insert(named(&counter.preamble)?.0, counter.direct_table_id);
        }
        for meter in &info.direct_meters {
            let kind = meter.spec.as_ref().map_or(MeterType::TwoRateThreeColor, |spec| spec.r#type());
            objects.direct_meters.insert(named(&meter.preamble)?.0, (meter.direct_table_id, kind));
        }
        for table in &info.tables {
            let (id, name) = named(&table.preamble)?;
            let fields = fields(&table.match_fields, &types).map_err(|error| error.at(&name))?;
            let actions =
                table.action_refs.iter().map(|reference| (reference.id, reference.scope())).collect();
            let profile = Some(table.implementation_id).filter(|id| *id != 0);
            objects.tables.insert(
                id,
                Table {
                    id,
                    fields,
                    actions,
                    default_is_const: table.const_default_action_id != 0,
                    profile,
                    has_counter: table
                        .direct_resource_ids
                        .iter()
                        .any(|id| objects.direct_counters.contains_key(id)),
                    has_meter: table
                        .direct_resource_ids
                        .iter()
                        .any(|id| objects.direct_meters.contains_key(id)),
                    has_idle_timeout: table.idle_timeout_behavior() == IdleTimeoutBehavior::NotifyControl,
                    is_const: table.is_const_table,
                    name,
                },
            );
        }
        for register in &info.registers {
            let (id, name) = named(&register.preamble)?;
            let kind = register.type_spec.as_ref().and_then(|spec| DataType::new(spec, &types));
            objects.registers.insert(id, Array { name, size: i64::from(register.size), kind });
        }
        for set in &info.value_sets {
            let (id, name) = named(&set.preamble)?;
            let kind = fields(&set.r#match, &types).map_err(|error| error.at(&name))?;
            objects.value_sets.insert(id, Array { name, size: i64::from(set.size), kind });
        }
        for digest in &info.digests {
            let (id, name) = named(&digest.preamble)?;
            let kind = digest.type_spec.as_ref().and_then(|spec| DataType::new(spec, &types));
            objects.digests.insert(id, (name, kind));
        }
        for header in &info.controller_packet_metadata {
            let (_, name) = named(&header.preamble)?;
            let parameters = header
                .metadata
                .iter()
                .map(|field| {
                    Ok(Parameter {
                        id: field.id,
                        name: field.name.clone(),
                        width: width(field.bitwidth, field.type_name.as_ref(), &types)?,
                    })
                })
                .collect::<Result<Vec<_>, Error>>()
                .map_err(|error| error.at(&name))?;
            match name.as_str() {
                "packet_in" => objects.packet_in = Some(parameters),
                "packet_out" => objects.packet_out = Some(parameters),
                _ => {
                    return Err(Error::new(format!("'{name}' is neither 'packet_in' nor 'packet_out'")));
                }
            }
        }
        objects.refer()?;
        Ok(objects)
    }

    /// Follows the references between objects.
    fn refer(&mut self) -> Result<(), Error> {
        for table in self.tables.values() {
            if let Some(id) = table.actions.keys().find(|id| !self.actions.contains_key(id)) {
                return Err(Error::new(format!(
                    "table '{}' refers to action {id:#010x}, which P4Info does not have",
                    table.name
                )));
            }
            if let Some(id) = table.profile {
                let Some(profile) = self.profiles.get_mut(&id) else {
                    return Err(Error::new(format!(
                        "table '{}' refers to action profile {id:#010x}, which P4Info does not have",
                        table.name
                    )));
                };
                profile.actions.extend(
                    table
                        .actions
                        .iter()
                        .filter(|(_, scope)| **scope != Scope::DefaultOnly)
                        .map(|(id, _)| *id),
                );
            }
        }
        // A selector takes its keys from the tables that use it: without one p4c describes it here and leaves it out of the program.
        self.profiles.retain(|id, _| self.tables.values().any(|table| table.profile == Some(*id)));
        let mut tables =
            self.direct_counters.values().chain(self.direct_meters.values().map(|(table, _)| table));
        match tables.find(|id| !self.tables.contains_key(id)) {
            Some(id) => Err(Error::new(format!(
                "a direct counter or meter refers to table {id:#010x}, which P4Info does not have"
            ))),
            None => Ok(()),
        }
    }

    /// Compares P4Info with the program that it is said to describe. `has` is true for the objects of that program.
    pub fn check(&self, has: impl Fn(Object<'_>) -> bool) -> Result<(), Error> {
        let tables = self.tables.values().map(|table| Object::Table(&table.name, table.fields.len()));
        // Compilers may leave out actions that no table has: controllers cannot name them.
        let used: Set<u32> = self.tables.values().flat_map(|table| table.actions.keys().copied()).collect();
        let actions = self.actions.iter().filter(|(id, _)| used.contains(id));
        let actions = actions.map(|(_, action)| Object::Action(&action.name, action.parameters.len()));
        let profiles = self.profiles.values().map(|profile| Object::Profile(&profile.name));
        let counters = self.counters.values().map(|counter| Object::Counter(&counter.name));
        let meters = self.meters.values().map(|meter| Object::Meter(&meter.name));
        let registers = self.registers.values().map(|register| Object::Register(&register.name));
        let digests = self.digests.values().map(|(name, _)| Object::Digest(name));
        let sets = self.value_sets.values().map(|set| Object::ValueSet(&set.name));
        let mut all = tables
            .chain(actions)
            .chain(profiles)
            .chain(counters)
            .chain(meters)
            .chain(registers)
            .chain(digests)
            .chain(sets);
        match all.find(|object| !has(*object)) {
            None => Ok(()),
            Some(object) => Err(Error::new(format!(
                "P4Info and the device configuration do not belong together: the latter has no {object}"
            ))),
        }
    }

    /// The table with an id.
    pub fn table(&self, id: u32) -> Result<&Table, Missing> {
        self.tables.get(&id).ok_or(Missing { kind: "table", id })
    }

    /// The action with an id.
    pub fn action(&self, id: u32) -> Result<&ActionInfo, Missing> {
        self.actions.get(&id).ok_or(Missing { kind: "action", id })
    }

    /// The id of the action with a name.
    pub fn action_id(&self, name: &str) -> Option<u32> {
        self.action_ids.get(name).copied()
    }

    /// The action profile with an id.
    pub fn profile(&self, id: u32) -> Result<&Profile, Missing> {
        self.profiles.get(&id).ok_or(Missing { kind: "action profile", id })
    }

    /// The kind of a table's direct meter.
    pub fn direct_meter(&self, table: u32) -> Option<MeterType> {
        self.direct_meters.values().find(|(id, _)| *id == table).map(|(_, kind)| *kind)
    }
}

/// An object's id and name; ids occur once.
fn named(ids: &mut Set<u32>, preamble: Option<&Preamble>) -> Result<(u32, String), Error> {
    let preamble = preamble.filter(|preamble| preamble.id != 0);
    let preamble = preamble.ok_or_else(|| Error::new("an object in P4Info has no id"))?;
    if !ids.insert(preamble.id) {
        return Err(Error::new(format!("id {:#010x} occurs twice in P4Info", preamble.id)));
    }
    Ok((preamble.id, preamble.name.clone()))
}

fn parameters(action: &Action, types: &P4TypeInfo) -> Result<Vec<Parameter>, Error> {
    let parameter = |parameter: &ActionParam| {
        let width = width(parameter.bitwidth, parameter.type_name.as_ref(), types)?;
        Ok(Parameter { id: parameter.id, name: parameter.name.clone(), width })
    };
    action.params.iter().map(parameter).collect()
}

fn fields(fields: &[MatchField], types: &P4TypeInfo) -> Result<Vec<Field>, Error> {
    let field = |field: &MatchField| {
        let kind = match &field.r#match {
            Some(FieldMatchType::MatchType(kind)) => {
                MatchType::try_from(*kind).unwrap_or(MatchType::Unspecified)
            }
            _ => MatchType::Unspecified,
        };
        if kind == MatchType::Unspecified {
            return Err(Error::new(format!(
                "field '{}' has a kind of match that this switch does not know",
                field.name
            )));
        }
        Ok(Field {
            id: field.id,
            name: field.name.clone(),
            width: width(field.bitwidth, field.type_name.as_ref(), types)?,
            kind,
        })
    };
    fields.iter().map(field).collect()
}

/// The width of a value; a type that is translated has that of the translation.
fn width(width: i32, name: Option<&P4NamedType>, types: &P4TypeInfo) -> Result<u32, Error> {
    let named =
        name.and_then(|name| types.new_types.get(&name.name)).and_then(|named| named.representation.as_ref());
    if let Some(Representation::TranslatedType(translation)) = named {
        match translation.sdn_type {
            Some(SdnType::SdnBitwidth(width)) if width > 0 => return Ok(width as u32),
            Some(SdnType::SdnString(_)) => {
                return Err(Error::new("values that are translated to strings are not supported"));
            }
            _ => {}
        }
    }
    u32::try_from(width).ok().filter(|width| *width > 0).ok_or_else(|| Error::new("a value has no width"))
}

fn new_profile(profile: &ActionProfile, name: String) -> Profile {
    let max_member_weight = match &profile.selector_size_semantics {
        Some(SizeSemantics::SumOfMembers(semantics)) => Some(semantics.max_member_weight),
        _ => None,
    };
    Profile {
        name,
        has_selector: profile.with_selector,
        actions: Set::new(),
        size: profile.size,
        max_group_size: profile.max_group_size,
        max_member_weight,
        weights_disallowed: profile.weights_disallowed,
    }
}
