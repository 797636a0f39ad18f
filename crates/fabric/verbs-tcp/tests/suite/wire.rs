//! Every byte string is a frame, the start of a frame, or an error without a panic. Parsing returns
//! what was encoded.

use latchwork_verbs::{ComputeNodeId, LocalBuffer, Message, Region, RegionKey, WorkRequest};
use latchwork_verbs_tcp::wire::{
    ANSWER_LEN, AgentGreeting, CLIENT_GREETING_LEN, ClientGreeting, DATA_MAX, FRAME_MAX, FromAgent,
    FromClient, HEADER, HELLO_LEN, Hello, MAC_LEN, TcpNode, WELCOME_LEN, Welcome, WireError,
    WireRequest, begin_batch, begin_reply, end_batch, end_reply, peek, put_lease, put_ping,
    put_pong, put_request, put_time,
};
use proptest::collection::vec;
use proptest::prelude::*;

const LOCAL: u64 = 8 << 10;

fn word() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..64_u64]
}

fn local() -> impl Strategy<Value = LocalBuffer> {
    (0..LOCAL / 8, 0..LOCAL / 8).prop_map(|(from, len)| {
        let len = len.min(LOCAL / 8 - from) as u32 * 8;
        LocalBuffer { region: RegionKey(0), offset: from * 8, len }
    })
}

fn request() -> impl Strategy<Value = WorkRequest> {
    let remote = || any::<u64>().prop_map(|word| word & !7);
    let id = (1..=ComputeNodeId::MAX).prop_map(|id| ComputeNodeId::new(id).unwrap());
    prop_oneof![
        (remote(), local()).prop_map(|(remote, local)| WorkRequest::Read { remote, local }),
        (remote(), local(), word(), word()).prop_map(|(remote, local, mask, value)| {
            WorkRequest::ReadIf { remote, local, mask, value }
        }),
        (remote(), local()).prop_map(|(remote, local)| WorkRequest::Write { remote, local }),
        (remote(), word()).prop_map(|(remote, value)| WorkRequest::WriteWord { remote, value }),
        (remote(), word(), word()).prop_map(|(remote, expected, desired)| {
            WorkRequest::CompareSwap { remote, expected, desired }
        }),
        (remote(), word()).prop_map(|(remote, add)| WorkRequest::FetchAdd { remote, add }),
        (id, any::<[u64; Message::WORDS]>())
            .prop_map(|(from, body)| WorkRequest::Send(Message { from, body })),
    ]
}

/// One to four requests, with at most two atomics.
fn requests() -> impl Strategy<Value = Vec<WorkRequest>> {
    vec(request(), 1..=4).prop_filter("at most two atomics", |requests| {
        requests.iter().filter(|r| r.kind() == latchwork_verbs::WorkRequestKind::Atomic).count()
            <= 2
    })
}

fn memory() -> std::sync::Arc<Region> {
    let region = Region::zeroed(LOCAL as usize).unwrap();
    (0..LOCAL as usize / 8).for_each(|i| region.words().set_word(i, !(i as u64) << 7 | 5));
    region
}

fn batch(out: &mut Vec<u8>, requests: &[WorkRequest], region: u16, seq: u32) {
    let memory = memory();
    let start = begin_batch(out, requests.len(), region, seq);
    for request in requests {
        put_request(out, request, |local| {
            memory
                .words()
                .slice(local.offset as usize..(local.offset + u64::from(local.len)) as usize)
        });
    }
    end_batch(out, start);
}

fn same(request: &WorkRequest, parsed: &WireRequest<'_>) -> bool {
    match (*request, *parsed) {
        (
            WorkRequest::Read { remote, local },
            WireRequest::Read { remote: there, len, condition },
        ) => (remote, local.len, None) == (there, len, condition),
        (
            WorkRequest::ReadIf { remote, local, mask, value },
            WireRequest::Read { remote: there, len, condition },
        ) => (remote, local.len, Some((mask, value))) == (there, len, condition),
        (WorkRequest::Write { remote, local }, WireRequest::Write { remote: there, data }) => {
            let mut bytes = vec![0; local.len as usize];
            memory().words().read_bytes(local.offset as usize, &mut bytes);
            remote == there && bytes == data
        }
        (WorkRequest::WriteWord { remote, value }, WireRequest::Write { remote: there, data }) => {
            remote == there && value.to_le_bytes() == data
        }
        (
            WorkRequest::CompareSwap { remote, expected, desired },
            WireRequest::CompareSwap { remote: r, expected: e, desired: d },
        ) => (remote, expected, desired) == (r, e, d),
        (WorkRequest::FetchAdd { remote, add }, WireRequest::FetchAdd { remote: r, add: a }) => {
            (remote, add) == (r, a)
        }
        (WorkRequest::Send(message), WireRequest::Send(sent)) => message == sent.message(),
        _ => false,
    }
}

/// Parses `bytes` as the agent does, to the end or the first error. Parsing must neither panic nor
/// use more bytes than there are.
fn read_as_agent(mut bytes: &[u8]) -> Result<usize, WireError> {
    let mut frames = 0;
    while let Some((frame, used)) = FromClient::parse(bytes)? {
        if let FromClient::Batch(batch) = frame {
            // A parsed batch has all of its requests.
            let requests = batch.requests().len();
            assert!((1..=4).contains(&requests) && batch.requests().count() == requests);
        }
        assert!((HEADER..=FRAME_MAX).contains(&used) && used <= bytes.len());
        bytes = &bytes[used..];
        frames += 1;
    }
    assert!(bytes.len() < FRAME_MAX, "waits for more than any frame has");
    Ok(frames)
}

fn read_as_client(mut bytes: &[u8]) -> Result<usize, WireError> {
    let mut frames = 0;
    while let Some((_, used)) = FromAgent::parse(bytes)? {
        assert!((HEADER..=FRAME_MAX).contains(&used) && used <= bytes.len());
        bytes = &bytes[used..];
        frames += 1;
    }
    assert!(bytes.len() < FRAME_MAX, "waits for more than any frame has");
    Ok(frames)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_frames_or_a_clean_error(bytes in vec(any::<u8>(), 0..600)) {
        let _ = read_as_agent(&bytes);
        let _ = read_as_client(&bytes);
    }

    #[test]
    fn any_header_with_a_length_that_can_be_is_a_frame_or_a_clean_error(
        kind in prop_oneof![0..5_u8, 128..133_u8],
        flags in any::<[u8; 7]>(),
        body in vec(any::<u8>(), 0..300),
    ) {
        let len = (HEADER + body.len()) as u32;
        let bytes = [&len.to_le_bytes()[..], &[kind], &flags, &body].concat();
        let _ = read_as_agent(&bytes);
        let _ = read_as_client(&bytes);
        for start in 0..bytes.len() {
            let _ = peek(&bytes[start..], |_, _, _| {});
        }
    }

    #[test]
    fn any_bytes_are_greetings_or_a_clean_error(
        bytes in vec(any::<u8>(), HELLO_LEN),
        more in vec(any::<u8>(), CLIENT_GREETING_LEN - MAC_LEN),
        magic in any::<bool>(),
    ) {
        let mut hello: [u8; HELLO_LEN] = bytes.try_into().unwrap();
        if magic {
            hello[..10].copy_from_slice(b"LATCHNET\x01\x00");
        }
        prop_assert_eq!(HELLO_LEN, ANSWER_LEN);
        if let Ok(parsed) = Hello::parse(&hello) && magic {
            prop_assert_eq!(parsed.bytes(), hello);
        }
        if let Ok(parsed) = AgentGreeting::parse(&hello) && magic {
            prop_assert_eq!(parsed.bytes(), hello);
        }
        let introduction: &[u8; CLIENT_GREETING_LEN - MAC_LEN] = more[..].try_into().unwrap();
        if let Ok(parsed) = ClientGreeting::parse(introduction) {
            prop_assert_eq!(&parsed.bytes(), introduction);
        }
        let welcome: &[u8; WELCOME_LEN - MAC_LEN] = more[..WELCOME_LEN - MAC_LEN].try_into().unwrap();
        if let Ok(parsed) = Welcome::parse(welcome) {
            prop_assert_eq!(&parsed.bytes(), welcome);
        }
    }

    #[test]
    fn batches_come_out_as_they_went_in(
        requests in requests(),
        region in any::<u16>(),
        seq in any::<u32>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = Vec::new();
        batch(&mut bytes, &requests, region, seq);
        // The start of a frame is not an error.
        prop_assert_eq!(FromClient::parse(&bytes[..cut.index(bytes.len())]), Ok(None));
        bytes.push(7);
        let Ok(Some((FromClient::Batch(parsed), used))) = FromClient::parse(&bytes) else {
            panic!("a batch that cannot be read");
        };
        prop_assert_eq!(used, bytes.len() - 1);
        prop_assert_eq!((parsed.region, parsed.seq), (region, seq));
        prop_assert_eq!(parsed.requests().len(), requests.len());
        // Reading ahead finds the memory of the first request, and of the second behind an atomic.
        let mut places = Vec::new();
        prop_assert_eq!(peek(&bytes, |region, at, len| places.push((region, at, u64::from(len)))), Some(used));
        let place = |request: &WorkRequest| request.remote().map(|(at, len)| (region, at, len));
        prop_assert_eq!(places.first().copied(), place(&requests[0]));
        let behind = requests.get(1).filter(|_| requests[0].kind() == latchwork_verbs::WorkRequestKind::Atomic);
        prop_assert_eq!(places.get(1).copied(), behind.and_then(place));
        for (request, parsed) in requests.iter().zip(parsed.requests()) {
            prop_assert!(same(request, &parsed), "{:?} became {:?}", request, parsed);
        }
        let ends = requests.iter().filter_map(|request| request.remote());
        prop_assert_eq!(parsed.reach(), ends.map(|(at, len)| at.saturating_add(len)).max());
        let sends = requests.iter().any(|request| matches!(request, WorkRequest::Send(_)));
        prop_assert_eq!(parsed.sends(), sends);
    }

    #[test]
    fn changed_frames_are_frames_or_a_clean_error(
        batches in vec(requests(), 1..4),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = Vec::new();
        put_lease(&mut bytes, 77);
        for (seq, requests) in batches.iter().enumerate() {
            batch(&mut bytes, requests, 0, seq as u32);
            put_ping(&mut bytes, 9);
        }
        prop_assert_eq!(read_as_agent(&bytes), Ok(1 + 2 * batches.len()));
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = read_as_agent(&bytes);
        let _ = read_as_agent(&bytes[cut.index(bytes.len())..]);
    }

    #[test]
    fn replies_come_out_as_they_went_in_and_changed_ones_are_clean_errors(
        body in vec(any::<u8>(), 0..200),
        undone in 0..16_u8,
        seq in any::<u32>(),
        at in any::<prop::sample::Index>(),
        value in any::<u8>(),
    ) {
        let mut bytes = Vec::new();
        put_time(&mut bytes, 1);
        put_pong(&mut bytes, 2, 3);
        let start = begin_reply(&mut bytes, seq, false);
        bytes.extend_from_slice(&body);
        end_reply(&mut bytes, start, undone);
        prop_assert_eq!(read_as_client(&bytes), Ok(3));
        let Ok(Some((FromAgent::Reply(reply), _))) = FromAgent::parse(&bytes[start..]) else {
            panic!("a reply that cannot be read");
        };
        prop_assert_eq!((reply.seq, reply.undone, reply.expired), (seq, undone, false));
        prop_assert_eq!(reply.body, &body[..]);
        let at = at.index(bytes.len());
        bytes[at] = value;
        let _ = read_as_client(&bytes);
    }
}

#[test]
fn lengths_that_cannot_be_are_errors_before_anything_is_waited_for() {
    for len in [0, 1, HEADER as u32 - 1, FRAME_MAX as u32 + 1, 1 << 31, u32::MAX] {
        let bytes = len.to_le_bytes();
        assert_eq!(FromClient::parse(&bytes), Err(WireError::FrameLength { len }));
        assert_eq!(FromAgent::parse(&bytes), Err(WireError::FrameLength { len }));
        assert_eq!(FromClient::parse(&bytes[..3]), Ok(None));
    }
    let longest = (FRAME_MAX as u32).to_le_bytes();
    assert_eq!(FromClient::parse(&longest), Ok(None));
}

#[test]
fn a_batch_cannot_request_more_than_a_reply_has() {
    let read = |len: u32| {
        let local = LocalBuffer { region: RegionKey(0), offset: 0, len };
        let mut bytes = Vec::new();
        batch(
            &mut bytes,
            &[WorkRequest::Read { remote: 0, local }, WorkRequest::Read { remote: 0, local }],
            0,
            0,
        );
        FromClient::parse(&bytes).map(|parsed| parsed.is_some())
    };
    assert_eq!(read(DATA_MAX as u32 / 2), Ok(true));
    for len in [DATA_MAX as u32 / 2 + 8, u32::MAX - 7] {
        assert_eq!(read(len), Err(WireError::Field { field: "length of READs" }));
    }
}

#[test]
fn a_frame_of_a_batch_has_one_shape() {
    let mut bytes = Vec::new();
    batch(&mut bytes, &[WorkRequest::FetchAdd { remote: 64, add: 2 }], 0, 0);
    let changed = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        FromClient::parse(&bytes).map(drop)
    };
    let field = |field| Err(WireError::Field { field });
    assert_eq!(changed(5, 0), field("requests"));
    assert_eq!(changed(5, 2), Err(WireError::Shape));
    assert_eq!(changed(5, 5), field("requests"));
    assert_eq!(changed(HEADER, 9), field("request"));
    assert_eq!(changed(HEADER + 1, 1), field("reserved"));
    assert_eq!(changed(HEADER + 4, 16), field("length of an atomic"));
    assert_eq!(changed(HEADER + 8, 65), field("alignment"));
    assert_eq!(changed(4, 200), Err(WireError::Kind { kind: 200 }));
    let longer = [&(bytes.len() as u32 + 1).to_le_bytes()[..], &bytes[4..], &[0]].concat();
    assert_eq!(FromClient::parse(&longer).map(drop), Err(WireError::Shape));
}

#[test]
fn nodes_that_cannot_be_are_no_introduction() {
    let from = TcpNode::Compute(ComputeNodeId::new(58).unwrap());
    let to = TcpNode::Memory(latchwork_verbs::MemoryNodeId(u16::MAX));
    let said = ClientGreeting { from, to, epoch: 3, incarnation: 4, session: [5; 16] };
    assert_eq!(ClientGreeting::parse(&said.bytes()), Ok(said));
    for (at, value) in [(0, 0), (0, 3), (1, 1), (2, 59), (2, 0), (3, 1), (47, 1)] {
        let mut bytes = said.bytes();
        bytes[at] = value;
        assert!(ClientGreeting::parse(&bytes).is_err(), "{value} at {at}");
    }
}
