use super::*;
use proptest::prelude::*;

/// The bytes of Python's `pickle.dumps(OrderedDict(w=...), 2)` of a tensor of `torch.save`, without its memo.
fn state_dict(shape: &[u8], key: &str) -> Vec<u8> {
    let text =
        |text: &str| [b"X", u32::try_from(text.len()).unwrap().to_le_bytes().as_slice(), text.as_bytes()].concat();
    let numbers: Vec<u8> = shape.iter().flat_map(|&size| [b'K', size]).collect();
    [
        b"\x80\x02ccollections\nOrderedDict\n)R(".as_slice(),
        &text("w"),
        b"ctorch._utils\n_rebuild_tensor_v2\n((",
        &text("storage"),
        b"ctorch\nFloatStorage\n",
        &text(key),
        &text("cpu"),
        b"K\x06tQK\x00(",
        &numbers,
        b"t(",
        &numbers,
        b"t\x89ccollections\nOrderedDict\n)RtRu.",
    ]
    .concat()
}

fn error(pickle: &[u8]) -> String {
    format!("{:#}", read_tensors(pickle).unwrap_err())
}

#[test]
fn a_state_dict() {
    let pickle = state_dict(&[2, 3], "0");
    let found = read_tensors(&pickle).unwrap();
    let expected =
        PickledTensor { storage_type: "FloatStorage", key: "0", offset: 0, shape: vec![2, 3], strides: vec![2, 3] };
    assert_eq!(found, HashMap::from([("w", expected)]));
}

#[test]
fn nothing_else_is_run_or_read() {
    assert_eq!(
        error(b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00echo\x85R."),
        "the pickle, at byte 2: it refers to `os.system`, which has no place in a state dict: nothing of it was executed"
    );
    assert_eq!(error(b"\x80\x04."), "the pickle, at byte 0: it has protocol 4: `torch.save` writes protocol 2");
    assert_eq!(error(b"\x80\x02K\x07."), "it holds a number, not a state dict");
    assert_eq!(error(b"\x80\x02}"), "it is cut short: download it again");
    assert_eq!(error(b"\x80\x02i"), "the pickle, at byte 2: instruction 0x69 has no place in a state dict");
    assert_eq!(error(b"\x80\x02X\xff\0\0\0."), "the pickle, at byte 2: it is cut short: download it again");
    let long = "the pickle, at byte 2: a text of 4294967295 bytes has no place in a state dict";
    assert_eq!(error(b"\x80\x02X\xff\xff\xff\xff."), long);
    assert_eq!(
        error(&[b"\x80\x02c".as_slice(), &[b'a'; 2000]].concat()),
        "the pickle, at byte 2: a name that does not end"
    );
    assert_eq!(error(b"\x80\x02K\x01K\x02R."), "the pickle, at byte 6: a call of a number");
    assert_eq!(error(b"\x80\x02(t\x85tt."), "the pickle, at byte 5: a mark is missing");
    let dimensions = [1; 9];
    assert_eq!(error(&state_dict(&dimensions, "0")), "tensor `w`: a tensor of 9 dimensions");
}

#[test]
fn what_is_below_a_mark_is_out_of_reach() {
    for taker in [b"\x85".as_slice(), b"\x87", b"0", b"s", b"R", b"Q", b"b", b"a"] {
        let pickle = [b"\x80\x02K\x01K\x02K\x03(", taker, b"t."].concat();
        assert!(read_tensors(&pickle).is_err());
    }
}

#[test]
fn deep_and_shared_objects_cost_what_their_text_costs() {
    // A tuple in a tuple in a tuple, a million deep; and one of twice the one before, which would be 2^60 long.
    let deep = [b"\x80\x02)".as_slice(), &[0x85].repeat(1_000_000), b"."].concat();
    assert_eq!(error(&deep), "it holds a tuple, not a state dict");
    let mut doubled = b"\x80\x02)q\x00".to_vec();
    (0..60).for_each(|_| doubled.extend(b"h\x00h\x00\x86q\x00"));
    doubled.push(b'.');
    assert_eq!(error(&doubled), "it holds a tuple, not a state dict");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_bytes_make_it_panic(
        instructions in prop::collection::vec(
            prop::sample::select(b"(tttRQ}]ubsaeN)\x85\x86\x87\x88K\x01h\x00q\x00j\x00\x00\x00\x00X\x01.".to_vec()), 0..80),
        change in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let _ = read_tensors(&instructions);
        let _ = read_tensors(&[b"\x80\x02ccollections\nOrderedDict\n)R", instructions.as_slice()].concat());
        let mut pickle = state_dict(&[2, 3], "0");
        let place = change.index(pickle.len());
        pickle[place] = byte;
        let _ = read_tensors(&pickle);
    }
}

#[test]
fn tensors_within_dicts_are_found_and_dicts_within_themselves_are_not_followed() {
    let inner = state_dict(&[2], "0");
    let inner = &inner[2..inner.len() - 1];
    let nested = |outer: &[u8], after: &[u8]| error(&[b"\x80\x02".as_slice(), outer, inner, after].concat());
    let key = |key: u8| [b"X\x01\0\0\0".as_slice(), &[key]].concat();
    assert_eq!(
        nested(&[b"}".as_slice(), &key(b'a'), b"}", &key(b'b')].concat(), b"ss."),
        "its tensors are not at the top but under `a`, and there under `b`, as what trains models saves them"
    );
    // A dict that is under a thousand keys of itself.
    let item = [key(b'a').as_slice(), b"h\0s"].concat();
    let itself = [b"\x80\x02}q\0".as_slice(), &item.repeat(1000), b"."].concat();
    assert_eq!(read_tensors(&itself).unwrap(), HashMap::new());
}
