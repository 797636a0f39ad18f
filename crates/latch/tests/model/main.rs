//! model
mod liveness;
mod setting;
mod world;

use setting::*;
use stateright::{Checker, Model};

fn explore(name: &str, setting: Setting) {
    let t = std::time::Instant::now();
    let checker = setting.clone().checker().threads(2).finish_when(stateright::HasDiscoveries::Any).spawn_bfs().join();
    println!("{name}: {} states, {} steps, depth {}, {:?}", checker.unique_state_count(), checker.state_count(), checker.max_depth(), t.elapsed());
    for (name, path) in checker.discoveries() {
        println!("{name}");
        for (s, a) in path.into_vec() {
            println!("   {a:?}   word {:?} mem {:?} wire {:?} fault {:?}", s.word, s.memory, s.wire, s.fault);
        }
    }
    let t = std::time::Instant::now();
    let g = liveness::search(&setting);
    println!("{name}: liveness {} {:?}", g.states, t.elapsed());
    if let Some(stuck) = g.stuck {
        let mut s = setting.first();
        for a in stuck {
            println!("   {a:?}   word {:?} mem {:?} wire {:?} fault {:?}", s.word, s.memory, s.wire, s.fault);
            s = setting.take(&s, a).unwrap();
        }
        println!("{s:#?}");
    }
}


#[test]
fn prof() {
    let mut s = Setting::new(&[Client::both(1), Client::both(2), Client::reader(3)]);
    s.rules.priority_max = 0;
    println!("{}", liveness::count(&s));
}
#[test]
fn counts() {
    let count = |n: &str, s: &Setting| { let t = std::time::Instant::now(); println!("{n} {} {:?}", liveness::count(s), t.elapsed()); };
    for p in [0, 1] { 
    let mut s = Setting::new(&[Client::both(1), Client::both(2), Client::both(3)]);
    s.rules.priority_max = p;
    if p == 0 {
    count("bbb", &s);
    s.escalates = false; count("bbb no esc", &s);
    for c in &mut s.clients { *c = c.never_evicts(); }
    count("bbb no esc no evict", &s);
    }
    let mut s = Setting::new(&[Client::both(1), Client::both(2), Client::writer(3)]);
    s.rules.priority_max = p;
    count("bbw", &s);
    s.escalates = false; count("bbw no esc", &s);
    let mut s = Setting::new(&[Client::both(1), Client::writer(2), Client::reader(3)]);
    s.rules.priority_max = p;
    count("bwr", &s);
    }
}

#[test]
fn refute() {
    use latchwork_latch::Rules;
    for (settle, wait) in [(false, true), (true, false), (false, false)] {
    for before in [false, true] {
    for demand in [Demand::Everything, Demand::Data] {
    for clients in [vec![Client::both(1), Client::both(2)], vec![Client::writer(1), Client::reader(2), Client::reader(3)],
         vec![Client::writer(1), Client::reader(57), Client::reader(58)],
         vec![Client::writer(1), Client::writer(2), Client::reader(3)],vec![Client::both(1), Client::both(2), Client::reader(58)]] {
        let mut s = Setting::new(&clients);
        s.rules = Rules { settle, registered_wait: wait, seq_modulus: 4, priority_max: 0 };
        s.undo_before_question = before;
        s.demand = demand;
        let t = std::time::Instant::now();
        let c = s.checker().threads(1).finish_when(stateright::HasDiscoveries::Any).target_state_count(1500_000).spawn_bfs().join();
        print!("settle {settle} wait {wait} before {before} {demand:?} {} states {:?} ", c.unique_state_count(), t.elapsed());
        for c in clients { print!("{}{}{} ", if c.reads {"r"} else {""}, if c.writes {"w"} else {""}, c.id); }
        for (n, p) in c.discoveries() { let v = p.into_vec(); print!("  {n}: {} {:?}", v.len(), v.last().unwrap().0.fault); }
        println!();
    }}}}
}
