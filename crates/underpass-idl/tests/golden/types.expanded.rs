const _: () = {
    use crate::mock::__private::wire as __wire;
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Encode for Stat {
        const FIXED: ::core::option::Option<usize> = __wire::fixed::sum(
            &[
                <u64 as __wire::Encode>::FIXED,
                <<Option<String> as __wire::Carried>::Itself as __wire::Encode>::FIXED,
            ],
        );
        #[inline]
        fn size(&self) -> usize {
            match Self::FIXED {
                ::core::option::Option::Some(size) => size,
                ::core::option::Option::None => {
                    let Self { size: field0, r#type: field1 } = self;
                    0 + <u64 as __wire::Encode>::size(field0)
                        + <<Option<
                            String,
                        > as __wire::Carried>::Itself as __wire::Encode>::size(field1)
                }
            }
        }
        #[inline]
        fn encode<S: __wire::Sink + ?::core::marker::Sized>(&self, to: &mut S) {
            let Self { size: field0, r#type: field1 } = self;
            <u64 as __wire::Encode>::encode(field0, to);
            <<Option<
                String,
            > as __wire::Carried>::Itself as __wire::Encode>::encode(field1, to);
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Decode for Stat {
        const LEAST: usize = 0 + <u64 as __wire::Decode>::LEAST
            + <<Option<String> as __wire::Carried>::Itself as __wire::Decode>::LEAST;
        #[inline]
        fn decode<S: __wire::Source + ?::core::marker::Sized>(
            from: &mut S,
        ) -> ::core::result::Result<Self, __wire::DecodeError> {
            ::core::result::Result::Ok(Self {
                size: <u64 as __wire::Decode>::decode(from)?,
                r#type: <<Option<
                    String,
                > as __wire::Carried>::Itself as __wire::Decode>::decode(from)?,
            })
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Schema for Stat {
        fn schema(types: &mut __wire::Types) -> __wire::TypeName {
            let name = __wire::TypeName::generic("Stat", &[]);
            types
                .define(
                    ::core::any::type_name::<Self>(),
                    name,
                    |types| __wire::Definition::Struct(
                        __wire::Fields::Named(
                            ::std::vec::Vec::from([
                                ("size", <u64 as __wire::Schema>::schema(types)),
                                (
                                    "type",
                                    <<Option<
                                        String,
                                    > as __wire::Carried>::Itself as __wire::Schema>::schema(
                                        types,
                                    ),
                                ),
                            ]),
                        ),
                    ),
                )
        }
    }
};
const _: () = {
    use ::underpass::__private::wire as __wire;
    #[automatically_derived]
    #[allow(unused_variables)]
    impl<T: Clone + __wire::Schema, const N: usize> __wire::Encode for Pair<T, N>
    where
        T: PartialEq,
    {
        const FIXED: ::core::option::Option<usize> = __wire::fixed::sum(
            &[
                <<T as __wire::Carried>::Itself as __wire::Encode>::FIXED,
                <<[u8; N] as __wire::Carried>::Itself as __wire::Encode>::FIXED,
            ],
        );
        #[inline]
        fn size(&self) -> usize {
            match Self::FIXED {
                ::core::option::Option::Some(size) => size,
                ::core::option::Option::None => {
                    let Self { 0: field0, 1: field1 } = self;
                    0 + <<T as __wire::Carried>::Itself as __wire::Encode>::size(field0)
                        + <<[u8; N] as __wire::Carried>::Itself as __wire::Encode>::size(
                            field1,
                        )
                }
            }
        }
        #[inline]
        fn encode<S: __wire::Sink + ?::core::marker::Sized>(&self, to: &mut S) {
            let Self { 0: field0, 1: field1 } = self;
            <<T as __wire::Carried>::Itself as __wire::Encode>::encode(field0, to);
            <<[u8; N] as __wire::Carried>::Itself as __wire::Encode>::encode(field1, to);
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl<T: Clone + __wire::Schema, const N: usize> __wire::Decode for Pair<T, N>
    where
        T: PartialEq,
    {
        const LEAST: usize = 0
            + <<T as __wire::Carried>::Itself as __wire::Decode>::LEAST
            + <<[u8; N] as __wire::Carried>::Itself as __wire::Decode>::LEAST;
        #[inline]
        fn decode<S: __wire::Source + ?::core::marker::Sized>(
            from: &mut S,
        ) -> ::core::result::Result<Self, __wire::DecodeError> {
            ::core::result::Result::Ok(Self {
                0: <<T as __wire::Carried>::Itself as __wire::Decode>::decode(from)?,
                1: <<[u8; N] as __wire::Carried>::Itself as __wire::Decode>::decode(
                    from,
                )?,
            })
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl<T: Clone + __wire::Schema, const N: usize> __wire::Schema for Pair<T, N>
    where
        T: PartialEq,
    {
        fn schema(types: &mut __wire::Types) -> __wire::TypeName {
            let name = __wire::TypeName::generic(
                "Pair",
                &[
                    <T as __wire::Schema>::schema(types),
                    __wire::TypeName::plain(&::std::string::ToString::to_string(&N)),
                ],
            );
            types
                .define(
                    ::core::any::type_name::<Self>(),
                    name,
                    |types| __wire::Definition::Struct(
                        __wire::Fields::Tuple(
                            ::std::vec::Vec::from([
                                <<T as __wire::Carried>::Itself as __wire::Schema>::schema(
                                    types,
                                ),
                                <<[u8; N] as __wire::Carried>::Itself as __wire::Schema>::schema(
                                    types,
                                ),
                            ]),
                        ),
                    ),
                )
        }
    }
};
const _: () = {
    use ::underpass::__private::wire as __wire;
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Encode for Nothing {
        const FIXED: ::core::option::Option<usize> = __wire::fixed::sum(&[]);
        #[inline]
        fn size(&self) -> usize {
            match Self::FIXED {
                ::core::option::Option::Some(size) => size,
                ::core::option::Option::None => {
                    let Self {} = self;
                    0
                }
            }
        }
        #[inline]
        fn encode<S: __wire::Sink + ?::core::marker::Sized>(&self, to: &mut S) {
            let Self {} = self;
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Decode for Nothing {
        const LEAST: usize = 0;
        #[inline]
        fn decode<S: __wire::Source + ?::core::marker::Sized>(
            from: &mut S,
        ) -> ::core::result::Result<Self, __wire::DecodeError> {
            ::core::result::Result::Ok(Self {})
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Schema for Nothing {
        fn schema(types: &mut __wire::Types) -> __wire::TypeName {
            let name = __wire::TypeName::generic("Nothing", &[]);
            types
                .define(
                    ::core::any::type_name::<Self>(),
                    name,
                    |types| __wire::Definition::Struct(__wire::Fields::Unit),
                )
        }
    }
};
const _: () = {
    use ::underpass::__private::wire as __wire;
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Encode for Tree {
        const FIXED: ::core::option::Option<usize> = __wire::fixed::same(
            &[
                __wire::fixed::sum(
                    &[::core::option::Option::Some(__wire::tag::size(3usize))],
                ),
                __wire::fixed::sum(
                    &[
                        ::core::option::Option::Some(__wire::tag::size(3usize)),
                        <<Box<
                            Tree,
                        > as __wire::Carried>::Itself as __wire::Encode>::FIXED,
                        <<Box<Tree> as __wire::Carried>::Itself as __wire::Encode>::FIXED,
                    ],
                ),
                __wire::fixed::sum(
                    &[
                        ::core::option::Option::Some(__wire::tag::size(3usize)),
                        <String as __wire::Encode>::FIXED,
                        <<Vec<Tree> as __wire::Carried>::Itself as __wire::Encode>::FIXED,
                    ],
                ),
            ],
        );
        #[inline]
        fn size(&self) -> usize {
            match Self::FIXED {
                ::core::option::Option::Some(size) => size,
                ::core::option::Option::None => {
                    match self {
                        Self::Leaf {} => __wire::tag::size(3usize),
                        Self::Node { 0: field0, 1: field1 } => {
                            __wire::tag::size(3usize)
                                + <<Box<
                                    Tree,
                                > as __wire::Carried>::Itself as __wire::Encode>::size(
                                    field0,
                                )
                                + <<Box<
                                    Tree,
                                > as __wire::Carried>::Itself as __wire::Encode>::size(
                                    field1,
                                )
                        }
                        Self::Labelled { label: field0, tree: field1 } => {
                            __wire::tag::size(3usize)
                                + <String as __wire::Encode>::size(field0)
                                + <<Vec<
                                    Tree,
                                > as __wire::Carried>::Itself as __wire::Encode>::size(
                                    field1,
                                )
                        }
                    }
                }
            }
        }
        #[inline]
        fn encode<S: __wire::Sink + ?::core::marker::Sized>(&self, to: &mut S) {
            match self {
                Self::Leaf {} => {
                    __wire::tag::encode(0u32, 3usize, to);
                }
                Self::Node { 0: field0, 1: field1 } => {
                    __wire::tag::encode(1u32, 3usize, to);
                    <<Box<
                        Tree,
                    > as __wire::Carried>::Itself as __wire::Encode>::encode(field0, to);
                    <<Box<
                        Tree,
                    > as __wire::Carried>::Itself as __wire::Encode>::encode(field1, to);
                }
                Self::Labelled { label: field0, tree: field1 } => {
                    __wire::tag::encode(2u32, 3usize, to);
                    <String as __wire::Encode>::encode(field0, to);
                    <<Vec<
                        Tree,
                    > as __wire::Carried>::Itself as __wire::Encode>::encode(field1, to);
                }
            }
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Decode for Tree {
        const LEAST: usize = __wire::tag::size(3usize);
        #[inline]
        fn decode<S: __wire::Source + ?::core::marker::Sized>(
            from: &mut S,
        ) -> ::core::result::Result<Self, __wire::DecodeError> {
            match __wire::tag::decode(3usize, from)? {
                0u32 => ::core::result::Result::Ok(Self::Leaf {}),
                1u32 => {
                    ::core::result::Result::Ok(Self::Node {
                        0: <<Box<
                            Tree,
                        > as __wire::Carried>::Itself as __wire::Decode>::decode(from)?,
                        1: <<Box<
                            Tree,
                        > as __wire::Carried>::Itself as __wire::Decode>::decode(from)?,
                    })
                }
                2u32 => {
                    ::core::result::Result::Ok(Self::Labelled {
                        label: <String as __wire::Decode>::decode(from)?,
                        tree: <<Vec<
                            Tree,
                        > as __wire::Carried>::Itself as __wire::Decode>::decode(from)?,
                    })
                }
                tag => {
                    ::core::result::Result::Err(__wire::DecodeError::BadTag {
                        of: "Tree",
                        tag,
                    })
                }
            }
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Schema for Tree {
        fn schema(types: &mut __wire::Types) -> __wire::TypeName {
            let name = __wire::TypeName::generic("Tree", &[]);
            types
                .define(
                    ::core::any::type_name::<Self>(),
                    name,
                    |types| __wire::Definition::Enum(
                        ::std::vec::Vec::from([
                            __wire::Variant {
                                name: "Leaf",
                                fields: __wire::Fields::Unit,
                            },
                            __wire::Variant {
                                name: "Node",
                                fields: __wire::Fields::Tuple(
                                    ::std::vec::Vec::from([
                                        <<Box<
                                            Tree,
                                        > as __wire::Carried>::Itself as __wire::Schema>::schema(
                                            types,
                                        ),
                                        <<Box<
                                            Tree,
                                        > as __wire::Carried>::Itself as __wire::Schema>::schema(
                                            types,
                                        ),
                                    ]),
                                ),
                            },
                            __wire::Variant {
                                name: "Labelled",
                                fields: __wire::Fields::Named(
                                    ::std::vec::Vec::from([
                                        ("label", <String as __wire::Schema>::schema(types)),
                                        (
                                            "tree",
                                            <<Vec<
                                                Tree,
                                            > as __wire::Carried>::Itself as __wire::Schema>::schema(
                                                types,
                                            ),
                                        ),
                                    ]),
                                ),
                            },
                        ]),
                    ),
                )
        }
    }
};
const _: () = {
    use ::underpass::__private::wire as __wire;
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Encode for Never {
        const FIXED: ::core::option::Option<usize> = ::core::option::Option::Some(1);
        #[inline]
        fn size(&self) -> usize {
            match Self::FIXED {
                ::core::option::Option::Some(size) => size,
                ::core::option::Option::None => match *self {}
            }
        }
        #[inline]
        fn encode<S: __wire::Sink + ?::core::marker::Sized>(&self, to: &mut S) {
            match *self {}
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Decode for Never {
        const LEAST: usize = __wire::tag::size(0usize);
        #[inline]
        fn decode<S: __wire::Source + ?::core::marker::Sized>(
            from: &mut S,
        ) -> ::core::result::Result<Self, __wire::DecodeError> {
            match __wire::tag::decode(0usize, from)? {
                tag => {
                    ::core::result::Result::Err(__wire::DecodeError::BadTag {
                        of: "Never",
                        tag,
                    })
                }
            }
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Schema for Never {
        fn schema(types: &mut __wire::Types) -> __wire::TypeName {
            let name = __wire::TypeName::generic("Never", &[]);
            types
                .define(
                    ::core::any::type_name::<Self>(),
                    name,
                    |types| __wire::Definition::Enum(::std::vec::Vec::from([])),
                )
        }
    }
};
