//! Processes on this machine.

use std::net::{IpAddr, Ipv4Addr};

use latchwork_harness::AppError;

use super::common::Common;
use super::files::{bin, document, program};
use super::launch::{Launch, Layout, Plan, Role};
use super::store::{Store, etcd, etcd_command, free_ports, store};
use crate::args::Run;

pub(super) fn plan(run: &Run, layout: &Layout) -> Result<Plan, AppError> {
    let bin = bin(run)?;
    let (memnode, own) = (program(&bin, "memnode")?, program(&bin, &run.program)?);
    let mut plan = Plan::default();
    let endpoint = match store(run, &layout.mark)? {
        Store::File => format!("file:{}", layout.scratch.join("store").display()),
        Store::Given(endpoint) => endpoint,
        Store::Etcd => {
            let [port, peers] = free_ports()?;
            let port = run.store_port.unwrap_or(port);
            let data = layout.scratch.join("etcd").display().to_string();
            let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
            let command = etcd_command(&etcd()?, &data, here, port, peers);
            plan.launches.push(Launch::here("store".to_owned(), Role::Store, command));
            format!("etcd://127.0.0.1:{port}/run")
        }
    };
    let common = Common { run, endpoint, shared: Some(&layout.shared) };
    for id in 0..run.memory_nodes {
        let command = common.memory(&memnode, id, None, None)?;
        plan.launches.push(Launch::here(format!("M{id}"), Role::Memory, command));
    }
    for id in 1..=run.compute_nodes {
        let name = format!("C{id}");
        let json = document(&layout.results, &name).display().to_string();
        let command = common.compute(&own, id, &json, None, None);
        plan.launches.push(Launch::here(name, Role::Program, command));
    }
    Ok(plan)
}
