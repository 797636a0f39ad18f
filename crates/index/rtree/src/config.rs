//! The settings of an R-tree.

/// The settings of an R-tree and of its handles.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RTreeConfig {
    /// The bytes of payload of each entry. All handles on a tree must agree on this setting. The
    /// other settings may differ between handles.
    pub payload_len: usize,
    /// The most entries of a leaf before a split, at least 3. `None`: as many as have room.
    pub max_entries_leaf: Option<u16>,
    /// The most children of an inner page before a split, at least 3. `None`: as many as have room.
    pub max_entries_inner: Option<u16>,
    /// The rules that keep queries right while the tree changes. Only tests of checks turn rules
    /// off.
    pub rules: RTreeRules,
}

impl RTreeConfig {
    /// The default settings, for constants.
    pub const DEFAULT: RTreeConfig = RTreeConfig {
        payload_len: 0,
        max_entries_leaf: None,
        max_entries_inner: None,
        rules: RTreeRules::ALL,
    };
}

/// The rules that keep queries right while the tree changes, each with a switch. With a rule off,
/// the tree has a bug, by which a test shows that its check works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RTreeRules {
    /// A split raises the sequence number of the page.
    pub splits_count: bool,
    /// A query reads right siblings up to the one with the expected number, that one included.
    pub queries_read_last: bool,
    /// The parent's entry contains a box before the box is added to the page.
    pub parents_grow: bool,
    /// A shrink ends when a grow has overtaken it, and a grow when a shrink has.
    pub shrinks_give_way: bool,
    /// A join reads the right siblings that the parent does not know.
    pub joins_read_siblings: bool,
    /// An entry that moves to another leaf stays in its old leaf, as departed, for the queries in
    /// progress.
    pub departed_stay: bool,
}

impl RTreeRules {
    /// All rules are on.
    pub const ALL: RTreeRules = RTreeRules {
        splits_count: true,
        queries_read_last: true,
        parents_grow: true,
        shrinks_give_way: true,
        joins_read_siblings: true,
        departed_stay: true,
    };
}

impl Default for RTreeRules {
    fn default() -> RTreeRules {
        RTreeRules::ALL
    }
}

/// The order in which a bulk load fills pages.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Packing {
    /// The entries are cut into slabs along one axis after the other (Leutenegger and others).
    #[default]
    SortTileRecursive,
    /// The entries are sorted along a Hilbert curve (Kamel and Faloutsos).
    Hilbert,
}
