//! Arguments of `wrkbench grpc`.

use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use plan::{GivenOptions, OPTIONS, OptionSpec, RunPlan, Target, find_option};

use super::Refusal;
use super::plan_options::{alone, given};

/// Show the services, methods and types of a gRPC server
///
/// The server is asked by gRPC server reflection. With --proto or --proto-set, the files are read
/// instead, and no URL is needed.
#[derive(Debug, Clone, Args)]
pub(crate) struct GrpcArgs {
    /// What to print.
    #[arg(value_name = "ACTION", value_enum)]
    action: GrpcAction,
    /// URL of the server, then the name: a service to list the methods of, or what to describe.
    #[arg(value_name = "URL|NAME", num_args = 0..=2)]
    rest: Vec<String>,
    #[command(flatten)]
    options: SchemaOptionArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GrpcAction {
    /// The services, or the methods of one
    List,
    /// The definition of a service, a method with its messages, or a type
    Describe,
}

/// What to print, and where types are described.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GrpcRequest {
    pub(crate) action: GrpcAction,
    /// The service or the symbol.
    pub(crate) name: Option<String>,
    /// The server and how to reach it, with [`plan::MessageSchema`].
    pub(crate) plan: RunPlan,
}

/// The options of a run that say where types are, and how to reach the server.
#[derive(Debug, Clone, Default)]
struct SchemaOptionArgs(GivenOptions);

/// Their long names.
const NAMES: [&str; 12] = [
    "proto",
    "proto-path",
    "proto-set",
    "header",
    "user",
    "timeout",
    "unix-socket",
    "verify",
    "cacert",
    "cert",
    "key",
    "proxy",
];

fn specs() -> impl Iterator<Item = &'static OptionSpec> {
    OPTIONS.iter().filter(|spec| NAMES.contains(&spec.long))
}

impl Args for SchemaOptionArgs {
    fn augment_args(command: Command) -> Command {
        command.args(specs().filter_map(|spec| {
            // They are for this command, not only for runs with --grpc.
            let arg = alone(spec, spec.setter?).help_heading(None::<&str>);
            let help = spec.help.strip_prefix("With --grpc: ").unwrap_or(spec.help);
            Some(match spec.long {
                "proto" => arg
                    .help(".proto file, in place of asking the server")
                    .long_help(None),
                "proto-set" => arg.help("Set of descriptors (protoc -o), in place of asking"),
                _ => arg.help(help),
            })
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SchemaOptionArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(given(specs(), matches)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl GrpcArgs {
    /// # Errors
    /// When there is no URL and no file, or no name to describe.
    pub(crate) fn into_request(self) -> Result<GrpcRequest, Refusal> {
        let mut options = self.options.0;
        let has_files = options.has("proto") || options.has("proto-set");
        let (urls, names): (Vec<String>, Vec<String>) =
            self.rest.into_iter().partition(|text| text.contains("://"));
        let target = match (urls.first(), has_files) {
            (Some(url), _) => Target::parse(url).map_err(|error| Refusal(error.to_string()))?,
            // It is not asked.
            (None, true) => {
                Target::parse("http://localhost/").map_err(|error| Refusal(error.to_string()))?
            }
            (None, false) => {
                return Err(Refusal(
                    "no URL of a gRPC server (expected like wrkbench grpc list \
                     http://127.0.0.1:50051, or --proto FILE)"
                        .to_owned(),
                ));
            }
        };
        if let Some(more) = urls.get(1).or_else(|| names.get(1)) {
            return Err(Refusal(format!(
                "{more:?}: one URL and one name are enough"
            )));
        }
        let name = names.into_iter().next();
        if self.action == GrpcAction::Describe && name.is_none() {
            return Err(Refusal(
                "nothing to describe (expected a service, a method or a type; list prints them)"
                    .to_owned(),
            ));
        }
        // Some of the options need it.
        if let Some(grpc) = find_option("grpc") {
            options.add(grpc, Vec::new());
        }
        let mut plan = options
            .plan(target)
            .map_err(|error| Refusal(error.to_string()))?;
        let schema = plan.request.schema.get_or_insert_default();
        schema.reflection = !has_files;
        Ok(GrpcRequest {
            action: self.action,
            name,
            plan,
        })
    }
}
