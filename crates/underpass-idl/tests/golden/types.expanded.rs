const _: () = {
    use crate::mock::__private::wire as __wire;
    enum __Field<const TYPE: ::core::primitive::usize> {}
    impl __wire::Carried<Stat> for __Field<0> {
        type Itself = Option<String>;
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Encode for Stat {
        const FIXED: ::core::option::Option<::core::primitive::usize> = __wire::fixed::sum(
            &[
                <u64 as __wire::Encode>::FIXED,
                __wire::carried::fixed::<__Field<0>, Self>(),
            ],
        );
        #[inline]
        fn size(&self) -> ::core::primitive::usize {
            match <Self as __wire::Encode>::FIXED {
                ::core::option::Option::Some(__size) => __size,
                ::core::option::Option::None => {
                    let Self { size: __field0, r#type: __field1 } = self;
                    0 + <u64 as __wire::Encode>::size(__field0)
                        + __wire::carried::size::<__Field<0>, Self>(__field1)
                }
            }
        }
        #[inline]
        fn encode<__S: __wire::Sink + ?::core::marker::Sized>(&self, __to: &mut __S) {
            let Self { size: __field0, r#type: __field1 } = self;
            <u64 as __wire::Encode>::encode(__field0, __to);
            __wire::carried::encode::<__Field<0>, Self>(__field1, __to);
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Decode for Stat {
        const LEAST: ::core::primitive::usize = 0 + <u64 as __wire::Decode>::LEAST
            + __wire::carried::least::<__Field<0>, Self>();
        #[inline]
        fn decode<__S: __wire::Source + ?::core::marker::Sized>(
            __from: &mut __S,
        ) -> ::core::result::Result<Self, __wire::DecodeError> {
            ::core::result::Result::Ok(Self {
                size: <u64 as __wire::Decode>::decode(__from)?,
                r#type: __wire::carried::decode::<__Field<0>, Self>(__from)?,
            })
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Schema for Stat {
        type Itself = Self;
        fn schema(__types: &mut __wire::Types) -> __wire::TypeName {
            let __name = __wire::TypeName::generic("Stat", &[]);
            let __name = __types
                .define(
                    ::core::any::type_name::<Self>(),
                    __name,
                    |__types| __wire::Definition::Struct(
                        __wire::Fields::Named(
                            ::std::vec::Vec::from([
                                ("size", <u64 as __wire::Schema>::schema(__types)),
                                (
                                    "type",
                                    __wire::carried::schema::<__Field<0>, Self>(__types),
                                ),
                            ]),
                        ),
                    ),
                );
            __types
                .document(
                    &__name,
                    &[("", "Properties of a file."), ("size", "In bytes.")],
                );
            __name
        }
    }
};
const _: () = {
    use ::underpass::__private::wire as __wire;
    enum __Field<const TYPE: ::core::primitive::usize> {}
    impl<T: Clone + __wire::Schema, const N: usize> __wire::Carried<Pair<T, N>>
    for __Field<0>
    where
        T: PartialEq,
    {
        type Itself = T;
    }
    impl<T: Clone + __wire::Schema, const N: usize> __wire::Carried<Pair<T, N>>
    for __Field<1>
    where
        T: PartialEq,
    {
        type Itself = [u8; N];
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl<T: Clone + __wire::Schema, const N: usize> __wire::Encode for Pair<T, N>
    where
        T: PartialEq,
    {
        const FIXED: ::core::option::Option<::core::primitive::usize> = __wire::fixed::sum(
            &[
                __wire::carried::fixed::<__Field<0>, Self>(),
                __wire::carried::fixed::<__Field<1>, Self>(),
            ],
        );
        #[inline]
        fn size(&self) -> ::core::primitive::usize {
            match <Self as __wire::Encode>::FIXED {
                ::core::option::Option::Some(__size) => __size,
                ::core::option::Option::None => {
                    let Self { 0: __field0, 1: __field1 } = self;
                    0 + __wire::carried::size::<__Field<0>, Self>(__field0)
                        + __wire::carried::size::<__Field<1>, Self>(__field1)
                }
            }
        }
        #[inline]
        fn encode<__S: __wire::Sink + ?::core::marker::Sized>(&self, __to: &mut __S) {
            let Self { 0: __field0, 1: __field1 } = self;
            __wire::carried::encode::<__Field<0>, Self>(__field0, __to);
            __wire::carried::encode::<__Field<1>, Self>(__field1, __to);
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl<T: Clone + __wire::Schema, const N: usize> __wire::Decode for Pair<T, N>
    where
        T: PartialEq,
    {
        const LEAST: ::core::primitive::usize = 0
            + __wire::carried::least::<__Field<0>, Self>()
            + __wire::carried::least::<__Field<1>, Self>();
        #[inline]
        fn decode<__S: __wire::Source + ?::core::marker::Sized>(
            __from: &mut __S,
        ) -> ::core::result::Result<Self, __wire::DecodeError> {
            ::core::result::Result::Ok(Self {
                0: __wire::carried::decode::<__Field<0>, Self>(__from)?,
                1: __wire::carried::decode::<__Field<1>, Self>(__from)?,
            })
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl<T: Clone + __wire::Schema, const N: usize> __wire::Schema for Pair<T, N>
    where
        T: PartialEq,
    {
        type Itself = Self;
        fn schema(__types: &mut __wire::Types) -> __wire::TypeName {
            let __name = __wire::TypeName::generic(
                "Pair",
                &[
                    <T as __wire::Schema>::schema(__types),
                    __wire::TypeName::plain(&::std::string::ToString::to_string(&N)),
                ],
            );
            __types
                .define(
                    ::core::any::type_name::<Self>(),
                    __name,
                    |__types| __wire::Definition::Struct(
                        __wire::Fields::Tuple(
                            ::std::vec::Vec::from([
                                __wire::carried::schema::<__Field<0>, Self>(__types),
                                __wire::carried::schema::<__Field<1>, Self>(__types),
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
        const FIXED: ::core::option::Option<::core::primitive::usize> = __wire::fixed::sum(
            &[],
        );
        #[inline]
        fn size(&self) -> ::core::primitive::usize {
            match <Self as __wire::Encode>::FIXED {
                ::core::option::Option::Some(__size) => __size,
                ::core::option::Option::None => {
                    let Self {} = self;
                    0
                }
            }
        }
        #[inline]
        fn encode<__S: __wire::Sink + ?::core::marker::Sized>(&self, __to: &mut __S) {
            let Self {} = self;
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Decode for Nothing {
        const LEAST: ::core::primitive::usize = 0;
        #[inline]
        fn decode<__S: __wire::Source + ?::core::marker::Sized>(
            __from: &mut __S,
        ) -> ::core::result::Result<Self, __wire::DecodeError> {
            ::core::result::Result::Ok(Self {})
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Schema for Nothing {
        type Itself = Self;
        fn schema(__types: &mut __wire::Types) -> __wire::TypeName {
            let __name = __wire::TypeName::generic("Nothing", &[]);
            __types
                .define(
                    ::core::any::type_name::<Self>(),
                    __name,
                    |__types| __wire::Definition::Struct(__wire::Fields::Unit),
                )
        }
    }
};
const _: () = {
    use ::underpass::__private::wire as __wire;
    enum __Field<const TYPE: ::core::primitive::usize> {}
    impl __wire::Carried<Tree> for __Field<0> {
        type Itself = Box<Tree>;
    }
    impl __wire::Carried<Tree> for __Field<1> {
        type Itself = Vec<Tree>;
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Encode for Tree {
        const FIXED: ::core::option::Option<::core::primitive::usize> = __wire::fixed::same(
            &[
                __wire::fixed::sum(
                    &[::core::option::Option::Some(__wire::tag::size(3usize))],
                ),
                __wire::fixed::sum(
                    &[
                        ::core::option::Option::Some(__wire::tag::size(3usize)),
                        __wire::carried::fixed::<__Field<0>, Self>(),
                        __wire::carried::fixed::<__Field<0>, Self>(),
                    ],
                ),
                __wire::fixed::sum(
                    &[
                        ::core::option::Option::Some(__wire::tag::size(3usize)),
                        <String as __wire::Encode>::FIXED,
                        __wire::carried::fixed::<__Field<1>, Self>(),
                    ],
                ),
            ],
        );
        #[inline]
        fn size(&self) -> ::core::primitive::usize {
            match <Self as __wire::Encode>::FIXED {
                ::core::option::Option::Some(__size) => __size,
                ::core::option::Option::None => {
                    match self {
                        Self::Leaf {} => __wire::tag::size(3usize),
                        Self::Node { 0: __field0, 1: __field1 } => {
                            __wire::tag::size(3usize)
                                + __wire::carried::size::<__Field<0>, Self>(__field0)
                                + __wire::carried::size::<__Field<0>, Self>(__field1)
                        }
                        Self::Labelled { label: __field0, tree: __field1 } => {
                            __wire::tag::size(3usize)
                                + <String as __wire::Encode>::size(__field0)
                                + __wire::carried::size::<__Field<1>, Self>(__field1)
                        }
                    }
                }
            }
        }
        #[inline]
        fn encode<__S: __wire::Sink + ?::core::marker::Sized>(&self, __to: &mut __S) {
            match self {
                Self::Leaf {} => {
                    __wire::tag::encode(0u32, 3usize, __to);
                }
                Self::Node { 0: __field0, 1: __field1 } => {
                    __wire::tag::encode(1u32, 3usize, __to);
                    __wire::carried::encode::<__Field<0>, Self>(__field0, __to);
                    __wire::carried::encode::<__Field<0>, Self>(__field1, __to);
                }
                Self::Labelled { label: __field0, tree: __field1 } => {
                    __wire::tag::encode(2u32, 3usize, __to);
                    <String as __wire::Encode>::encode(__field0, __to);
                    __wire::carried::encode::<__Field<1>, Self>(__field1, __to);
                }
            }
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Decode for Tree {
        const LEAST: ::core::primitive::usize = __wire::tag::size(3usize);
        #[inline]
        fn decode<__S: __wire::Source + ?::core::marker::Sized>(
            __from: &mut __S,
        ) -> ::core::result::Result<Self, __wire::DecodeError> {
            match __wire::tag::decode(3usize, __from)? {
                0u32 => ::core::result::Result::Ok(Self::Leaf {}),
                1u32 => {
                    ::core::result::Result::Ok(Self::Node {
                        0: __wire::carried::decode::<__Field<0>, Self>(__from)?,
                        1: __wire::carried::decode::<__Field<0>, Self>(__from)?,
                    })
                }
                2u32 => {
                    ::core::result::Result::Ok(Self::Labelled {
                        label: <String as __wire::Decode>::decode(__from)?,
                        tree: __wire::carried::decode::<__Field<1>, Self>(__from)?,
                    })
                }
                __tag => {
                    ::core::result::Result::Err(__wire::DecodeError::BadTag {
                        of: "Tree",
                        tag: __tag,
                    })
                }
            }
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Schema for Tree {
        type Itself = Self;
        fn schema(__types: &mut __wire::Types) -> __wire::TypeName {
            let __name = __wire::TypeName::generic("Tree", &[]);
            let __name = __types
                .define(
                    ::core::any::type_name::<Self>(),
                    __name,
                    |__types| __wire::Definition::Enum(
                        ::std::vec::Vec::from([
                            __wire::Variant {
                                name: "Leaf",
                                fields: __wire::Fields::Unit,
                            },
                            __wire::Variant {
                                name: "Node",
                                fields: __wire::Fields::Tuple(
                                    ::std::vec::Vec::from([
                                        __wire::carried::schema::<__Field<0>, Self>(__types),
                                        __wire::carried::schema::<__Field<0>, Self>(__types),
                                    ]),
                                ),
                            },
                            __wire::Variant {
                                name: "Labelled",
                                fields: __wire::Fields::Named(
                                    ::std::vec::Vec::from([
                                        ("label", <String as __wire::Schema>::schema(__types)),
                                        (
                                            "tree",
                                            __wire::carried::schema::<__Field<1>, Self>(__types),
                                        ),
                                    ]),
                                ),
                            },
                        ]),
                    ),
                );
            __types.document(&__name, &[("Labelled", "With a text.")]);
            __name
        }
    }
};
const _: () = {
    use ::underpass::__private::wire as __wire;
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Encode for Never {
        const FIXED: ::core::option::Option<::core::primitive::usize> = ::core::option::Option::Some(
            1,
        );
        #[inline]
        fn size(&self) -> ::core::primitive::usize {
            match <Self as __wire::Encode>::FIXED {
                ::core::option::Option::Some(__size) => __size,
                ::core::option::Option::None => match *self {}
            }
        }
        #[inline]
        fn encode<__S: __wire::Sink + ?::core::marker::Sized>(&self, __to: &mut __S) {
            match *self {}
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Decode for Never {
        const LEAST: ::core::primitive::usize = __wire::tag::size(0usize);
        #[inline]
        fn decode<__S: __wire::Source + ?::core::marker::Sized>(
            __from: &mut __S,
        ) -> ::core::result::Result<Self, __wire::DecodeError> {
            match __wire::tag::decode(0usize, __from)? {
                __tag => {
                    ::core::result::Result::Err(__wire::DecodeError::BadTag {
                        of: "Never",
                        tag: __tag,
                    })
                }
            }
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Schema for Never {
        type Itself = Self;
        fn schema(__types: &mut __wire::Types) -> __wire::TypeName {
            let __name = __wire::TypeName::generic("Never", &[]);
            __types
                .define(
                    ::core::any::type_name::<Self>(),
                    __name,
                    |__types| __wire::Definition::Enum(::std::vec::Vec::from([])),
                )
        }
    }
};
