//! The pickle of a PyTorch state dict, read without executing anything.
//!
//! A pickle is a program for a small stack machine (described by Python's `pickletools`), which may call any function by name.
//! The reader accepts only the programs that `torch.save` writes for a state dict: protocol 2, with calls of the few functions
//! that rebuild a tensor. It interprets these calls and executes nothing. Anything else is an error that names it.
//!
//! The cost of a hostile program is linear in its length: an instruction makes at most one object, objects refer to each other by
//! number, and nothing is copied or visited in depth.

mod object;

use std::collections::{HashMap, HashSet};

use anyhow::{Context, Result, bail, ensure};
use itertools::Itertools;

use crate::system::errors::ErrorExt;
pub(super) use object::NotAStateDict;
use object::{Global, Id, Object};

#[cfg(test)]
mod tests;

/// A tensor of a state dict, as a view of a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PickledTensor<'a> {
    /// The storage's type, such as `FloatStorage`.
    pub storage_type: &'a str,
    /// The name of the storage in the archive.
    pub key: &'a str,
    /// Offset of the tensor's first value in the storage, counted in values.
    pub offset: u64,
    pub shape: Vec<u64>,
    /// Number of stored values from one index to the next, for each dimension.
    pub strides: Vec<u64>,
}

/// Reads the tensors of a pickled state dict, by name; entries that are no tensors are skipped. Fails if the pickle is damaged,
/// or holds no state dict.
pub fn read_tensors(pickle: &[u8]) -> Result<HashMap<&str, PickledTensor<'_>>> {
    let mut machine = StackMachine::new(pickle);
    let top = machine.run()?;
    machine.state_dict(top)
}

/// A `torch.save` file from before PyTorch 1.6: several pickles, followed by the storages.
#[derive(Debug, PartialEq, Eq)]
pub struct LegacyFile<'a> {
    pub tensors: HashMap<&'a str, PickledTensor<'a>>,
    /// (name, type) of each storage, in the order of the file.
    pub storages: Vec<(&'a str, &'a str)>,
    /// Length of all pickles together, in bytes.
    pub bytes: usize,
}

/// The first bytes of a [`LegacyFile`]: a pickle of `MAGIC_NUMBER` (`torch/serialization.py`), then a pickle of the format's
/// version, 1001.
pub const LEGACY_MAGIC: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.";

/// Reads the pickles at the beginning of a file that begins with [`LEGACY_MAGIC`]. They hold facts about the system that wrote
/// the file, the state dict, and the names of its storages. Fails if a pickle is damaged, there is no state dict, or the system
/// had another byte order.
pub fn read_legacy(pickles: &[u8]) -> Result<LegacyFile<'_>> {
    let rest = pickles.strip_prefix(LEGACY_MAGIC).context("it is no file of torch.save of before PyTorch 1.6")?;
    let mut system = StackMachine::new(rest);
    let facts = system.run().context("the facts on the system that wrote it")?;
    ensure!(!system.is_big_endian(facts), "it was written by a machine of another byte order");
    let mut machine = StackMachine::new(system.rest.0);
    let top = machine.run()?;
    let mut keys = StackMachine::new(machine.rest.0);
    let list = keys.run().context("the names of its storages")?;
    let types: HashMap<&str, &str> = machine.storages().collect();
    let storages = keys.text_list(list).context("the names of its storages")?.into_iter().map(|key| {
        let storage_type = types.get(key);
        Ok((key, *storage_type.with_context(|| format!("storage `{}` is of no tensor", key.escape_debug()))?))
    });
    let storages = storages.collect::<Result<_>>()?;
    Ok(LegacyFile { tensors: machine.state_dict(top)?, storages, bytes: pickles.len() - keys.rest.0.len() })
}

/// The stack machine that interprets a pickle.
#[derive(Default)]
struct StackMachine<'a> {
    /// Instructions that have not been executed yet.
    rest: ByteReader<'a>,
    /// All objects made so far; an [`Id`] is an index into them.
    objects: Vec<Object<'a>>,
    /// The stack of the machine.
    stack: Vec<Id>,
    /// Height of the stack at each mark, as a number of objects.
    marks: Vec<usize>,
    /// Objects that the pickle has stored under numbers for later use.
    memo: HashMap<i64, Id>,
}

impl<'a> StackMachine<'a> {
    fn new(pickle: &'a [u8]) -> Self {
        Self { rest: ByteReader(pickle), ..Self::default() }
    }

    /// Runs one pickle, and returns the object that it makes.
    fn run(&mut self) -> Result<Id> {
        let whole = self.rest.0.len();
        loop {
            let place = whole - self.rest.0.len();
            let [instruction] = self.rest.take()?;
            if instruction == b'.' {
                return self.pop();
            }
            self.step(instruction).with_context(|| format!("the pickle, at byte {place}"))?;
        }
    }

    /// Yields (name, type) of each storage that the pickle names.
    fn storages(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.objects.iter().filter_map(|object| match *object {
            Object::Storage { storage_type, key } => Some((key, storage_type)),
            _ => None,
        })
    }

    /// Returns the texts of a list object. Fails if the object is no list of texts.
    fn text_list(&self, list: Id) -> Result<Vec<&'a str>> {
        let Object::List(items) = &self.objects[list] else { bail!("{} in place of a list", self.describe(list)) };
        let text = |id: &Id| match self.objects[*id] {
            Object::Text(text) => Ok(text),
            _ => bail!("{} in place of a text", self.describe(*id)),
        };
        items.iter().map(text).collect()
    }

    /// Whether `facts` say that the system that wrote the file is not little-endian.
    fn is_big_endian(&self, facts: Id) -> bool {
        let Object::Dict(items) = &self.objects[facts] else { return false };
        let mut parts = items.iter().map(|(key, value)| (&self.objects[*key], &self.objects[*value]));
        parts.any(|part| matches!(part, (Object::Text("little_endian"), Object::Bool(false))))
    }

    /// Returns the tensors of a state dict object, by name. Fails if the object is no dict, or if its tensors lie in a nested
    /// dict.
    fn state_dict(&self, top: Id) -> Result<HashMap<&'a str, PickledTensor<'a>>> {
        let Object::Dict(items) = &self.objects[top] else {
            bail!("it holds {}, not a state dict", self.describe(top));
        };
        let mut tensors = HashMap::new();
        for (key, value) in items {
            let Object::Text(name) = self.objects[*key] else { continue };
            let tensor = self.tensor(*value).with_context(|| format!("tensor `{}`", name.escape_debug()))?;
            tensors.extend(tensor.map(|tensor| (name, tensor)));
        }
        match self.nested_tensor_keys(top) {
            Some(keys) if tensors.is_empty() => bail!(NotAStateDict::Nested(keys)),
            _ => Ok(tensors),
        }
    }

    /// Returns the keys that lead from a dict without tensors to the nearest nested dict that has tensors. Visits each dict
    /// once. `None` without such a dict.
    fn nested_tensor_keys(&self, top: Id) -> Option<Vec<String>> {
        /// Maximum depth at which a state dict is searched in nested dicts; training programs put it no deeper.
        const MAX_NESTING_DEPTH: usize = 3;
        // Each dict, the index of the dict that contains it, and its key there.
        let mut dicts: Vec<(Id, usize, Id)> = vec![(top, 0, top)];
        let mut visited = HashSet::from([top]);
        let mut next = 0;
        let is_tensor = |(_, value): &(Id, Id)| matches!(self.objects[*value], Object::Tensor { .. });
        while let Some(&(dict, ..)) = dicts.get(next) {
            let Object::Dict(items) = &self.objects[dict] else { unreachable!("only dicts are listed") };
            if items.iter().any(is_tensor) {
                break;
            }
            dicts.extend(items.iter().filter_map(|&(key, value)| {
                let is_dict = matches!((&self.objects[key], &self.objects[value]), (Object::Text(_), Object::Dict(_)));
                (is_dict && visited.insert(value)).then_some((value, next, key))
            }));
            next += 1;
        }
        let mut keys = Vec::new();
        while next > 0 && keys.len() <= MAX_NESTING_DEPTH {
            let (_, above, key) = *dicts.get(next)?;
            let Object::Text(key) = self.objects[key] else { unreachable!("only texts are followed") };
            keys.push(key.to_owned());
            next = above;
        }
        keys.reverse();
        Some(keys).filter(|keys| (1..=MAX_NESTING_DEPTH).contains(&keys.len()))
    }

    /// Executes one instruction, which pushes an object onto the stack or rearranges the stack.
    fn step(&mut self, instruction: u8) -> Result<()> {
        let object = match instruction {
            b'N' => Object::None,
            // NEWTRUE, NEWFALSE
            0x88 | 0x89 => Object::Bool(instruction == 0x88),
            b'K' => Object::Int(self.rest.read_number(1, false)?),
            b'M' => Object::Int(self.rest.read_number(2, false)?),
            b'J' => Object::Int(self.rest.read_number(4, true)?),
            // LONG1
            0x8a => {
                let [length] = self.rest.take()?;
                Object::Int(self.rest.read_number(length, true)?)
            }
            b'G' => self.rest.take::<8>().map(|_| Object::Float)?,
            b'X' => Object::Text(self.rest.read_text()?),
            b'c' => Object::Global(Global::from_name(self.rest.read_line()?, self.rest.read_line()?)?),
            b')' => Object::Tuple(Vec::new()),
            b't' => Object::Tuple(self.pop_to_mark()?),
            // TUPLE1, TUPLE2, TUPLE3
            0x85..=0x87 => {
                let start = self.stack.len().checked_sub(usize::from(instruction - 0x84));
                let start = start.filter(|&start| start >= self.stack_floor()).context("its stack is empty")?;
                Object::Tuple(self.stack.split_off(start))
            }
            b']' => Object::List(Vec::new()),
            b'}' => Object::Dict(Vec::new()),
            b'Q' => {
                let id = self.pop()?;
                self.storage(id)?
            }
            other => return self.rearrange(other),
        };
        self.push(object);
        Ok(())
    }

    /// Executes an instruction that makes no new object, or makes one by calling a function.
    fn rearrange(&mut self, instruction: u8) -> Result<()> {
        match instruction {
            // PROTO
            0x80 => {
                let [protocol] = self.rest.take()?;
                ensure!(protocol == 2, NotAStateDict::Protocol(protocol));
            }
            b'q' | b'r' => {
                let index = self.rest.read_number(if instruction == b'r' { 4 } else { 1 }, false)?;
                self.memo.insert(index, self.top()?);
            }
            b'h' | b'j' => {
                let index = self.rest.read_number(if instruction == b'j' { 4 } else { 1 }, false)?;
                let id = *self.memo.get(&index).with_context(|| format!("object {index} was never there"))?;
                self.stack.push(id);
            }
            b'(' => self.marks.push(self.stack.len()),
            b'a' => {
                let item = self.pop()?;
                self.list()?.push(item);
            }
            b'e' => {
                let items = self.pop_to_mark()?;
                self.list()?.extend(items);
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.dict()?.push((key, value));
            }
            b'u' => {
                let items = self.pop_to_mark()?;
                ensure!(items.len() % 2 == 0, "a key without a value");
                self.dict()?.extend(items.into_iter().tuples::<(_, _)>());
            }
            b'R' => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                self.call(function, arguments)?;
            }
            // BUILD: the state dict's attributes, none of them weights.
            b'b' => {
                self.pop()?;
                self.dict()?;
            }
            other => bail!("instruction 0x{other:02x} has no place in a state dict"),
        }
        Ok(())
    }

    /// Executes a call of `torch._utils._rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks)`,
    /// `torch._utils._rebuild_parameter(tensor, requires_grad, hooks)` or `collections.OrderedDict()`.
    fn call(&mut self, function: Id, arguments: Id) -> Result<()> {
        let (Object::Global(function), Object::Tuple(arguments)) = (&self.objects[function], &self.objects[arguments])
        else {
            bail!("a call of {}", self.describe(function));
        };
        match (function, arguments.as_slice()) {
            (Global::OrderedDict, []) => self.push(Object::Dict(Vec::new())),
            // A parameter is its tensor.
            (Global::RebuildParameter, [tensor, ..]) => self.stack.push(*tensor),
            (Global::RebuildTensor, &[storage, offset, shape, strides, ..]) => {
                self.push(Object::Tensor { storage, offset, shape, strides });
            }
            _ => bail!("a call of {function:?} without its arguments"),
        }
        Ok(())
    }

    /// Returns the tensor that an object represents; `None` if it is no tensor. Fails if its storage, shape or strides are
    /// invalid.
    fn tensor(&self, id: Id) -> Result<Option<PickledTensor<'a>>> {
        let Object::Tensor { storage, offset, shape, strides } = self.objects[id] else { return Ok(None) };
        let Object::Storage { storage_type, key } = self.objects[storage] else {
            bail!("{} in place of a storage", self.describe(storage));
        };
        let (shape, strides) = (self.numbers(shape)?, self.numbers(strides)?);
        ensure!(shape.len() == strides.len(), "{} dimensions, {} strides", shape.len(), strides.len());
        Ok(Some(PickledTensor { storage_type, key, offset: self.number(offset)?, shape, strides }))
    }

    /// Makes the storage that `torch.save` writes as `("storage", type, key, device, number of values)`. Before version 1.6, a
    /// sixth part can make it a view of another storage. Such views occur only in the oldest files; they are refused.
    fn storage(&self, id: Id) -> Result<Object<'a>> {
        if let Object::Tuple(parts) = &self.objects[id]
            && parts.get(5).is_none_or(|view| matches!(self.objects[*view], Object::None))
            && let Some([Object::Text("storage"), Object::Global(Global::Storage(storage_type)), Object::Text(key)]) =
                parts.iter().map(|part| &self.objects[*part]).next_array()
        {
            return Ok(Object::Storage { storage_type, key });
        }
        bail!("{} in place of a storage", self.describe(id))
    }

    /// Returns the numbers of a tuple, such as a shape.
    fn numbers(&self, id: Id) -> Result<Vec<u64>> {
        /// Maximum number of dimensions of a tensor; parameters of an encoder have at most two.
        const MOST_DIMENSIONS: usize = 8;
        match &self.objects[id] {
            Object::Tuple(items) if items.len() <= MOST_DIMENSIONS => items.iter().map(|id| self.number(*id)).collect(),
            Object::Tuple(items) => bail!("a tensor of {} dimensions", items.len()),
            _ => bail!("{} in place of a shape", self.describe(id)),
        }
    }

    /// Returns a number that is not negative.
    fn number(&self, id: Id) -> Result<u64> {
        let Object::Int(value) = self.objects[id] else { bail!("{} in place of a size", self.describe(id)) };
        u64::try_from(value).with_context(|| format!("a size of {value}"))
    }

    /// Returns the kind of an object, for messages.
    fn describe(&self, id: Id) -> &'static str {
        self.objects[id].kind_name()
    }

    /// Adds an object, and pushes it onto the stack.
    fn push(&mut self, object: Object<'a>) {
        self.objects.push(object);
        self.stack.push(self.objects.len() - 1);
    }

    /// Returns the height of the stack at the last mark, below which nothing may be popped.
    fn stack_floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Result<Id> {
        ensure!(self.stack.len() > self.stack_floor(), "its stack is empty");
        Ok(self.stack.pop().expect("it is longer than the floor"))
    }

    /// Removes the objects above the last mark from the stack, and returns them.
    fn pop_to_mark(&mut self) -> Result<Vec<Id>> {
        let mark = self.marks.pop().context("a mark is missing")?;
        // Values below a mark are never popped, so the stack is at least that high.
        Ok(self.stack.split_off(mark))
    }

    /// Returns the object on top of the stack.
    fn top(&self) -> Result<Id> {
        self.stack.last().copied().context("its stack is empty")
    }

    /// Returns the items of the dict on top of the stack. Fails if it is no dict.
    fn dict(&mut self) -> Result<&mut Vec<(Id, Id)>> {
        let top = self.top()?;
        let Object::Dict(items) = &mut self.objects[top] else { bail!("an item for what is no dict") };
        Ok(items)
    }

    /// Returns the items of the list on top of the stack. Fails if it is no list.
    fn list(&mut self) -> Result<&mut Vec<Id>> {
        let top = self.top()?;
        let Object::List(items) = &mut self.objects[top] else { bail!("an item for what is no list") };
        Ok(items)
    }
}

/// Maximum length of a text in a state dict, in bytes. The longest texts in real files are tensor names of about 100 bytes.
const MAX_TEXT_BYTES: u32 = 1000;

/// Bytes of a pickle that have not been read yet.
#[derive(Default)]
struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    /// Removes and returns the first `N` bytes.
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk().context("it is cut short").hint("download it again")?;
        self.0 = rest;
        Ok(*bytes)
    }

    /// Removes and returns the first `length` bytes.
    fn take_slice(&mut self, length: u32) -> Result<&'a [u8]> {
        let parts = usize::try_from(length).ok().and_then(|length| self.0.split_at_checked(length));
        let (bytes, rest) = parts.context("it is cut short").hint("download it again")?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Reads a text that follows its length in bytes.
    fn read_text(&mut self) -> Result<&'a str> {
        let length = u32::from_le_bytes(self.take()?);
        ensure!(length <= MAX_TEXT_BYTES, "a text of {length} bytes has no place in a state dict");
        std::str::from_utf8(self.take_slice(length)?).context("a name that is not UTF-8")
    }

    /// Reads a line of text, and returns it without its end.
    fn read_line(&mut self) -> Result<&'a str> {
        let line = &self.0[..self.0.len().min(MAX_TEXT_BYTES as usize)];
        let length = line.iter().position(|byte| *byte == b'\n').context("a name that does not end")?;
        let (line, rest) = self.0.split_at(length);
        self.0 = &rest[1..];
        std::str::from_utf8(line).context("a name that is not UTF-8")
    }

    /// Reads a little-endian number of `length` bytes.
    fn read_number(&mut self, length: u8, signed: bool) -> Result<i64> {
        let bytes = self.take_slice(length.into())?;
        ensure!(bytes.len() <= 8, "a number of {length} bytes");
        let negative = signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut value = [if negative { 0xff } else { 0 }; 8];
        value[..bytes.len()].copy_from_slice(bytes);
        Ok(i64::from_le_bytes(value))
    }
}
