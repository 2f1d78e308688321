const _: () = {
    use ::underpass::__private::wire as __wire;
    enum __Field<const TYPE: ::core::primitive::usize> {}
    impl __wire::Carried<Stat> for __Field<0> {
        type Itself = FileId;
    }
    impl __wire::Carried<Stat> for __Field<1> {
        type Itself = Option<u32>;
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Encode for Stat {
        const FIXED: ::core::option::Option<::core::primitive::usize> = ::core::option::Option::None;
        #[inline]
        fn size(&self) -> ::core::primitive::usize {
            match <Self as __wire::Encode>::FIXED {
                ::core::option::Option::Some(__size) => __size,
                ::core::option::Option::None => {
                    let Self {
                        size: __field0,
                        id: __field1,
                        owner: __field2,
                        mode: __field3,
                    } = self;
                    __wire::added::size(
                        2u8,
                        0 + __wire::carried::size::<__Field<1>, Self>(__field2)
                            + <u32 as __wire::Encode>::size(__field3),
                    ) + <u64 as __wire::Encode>::size(__field0)
                        + __wire::carried::size::<__Field<0>, Self>(__field1)
                }
            }
        }
        #[inline]
        fn encode<__S: __wire::Sink + ?::core::marker::Sized>(&self, __to: &mut __S) {
            let Self { size: __field0, id: __field1, owner: __field2, mode: __field3 } = self;
            <u64 as __wire::Encode>::encode(__field0, __to);
            __wire::carried::encode::<__Field<0>, Self>(__field1, __to);
            let mut __to = __to;
            __wire::added::encode(
                2u8,
                0 + __wire::carried::size::<__Field<1>, Self>(__field2)
                    + <u32 as __wire::Encode>::size(__field3),
                &mut __to,
                |__to| {
                    __wire::carried::encode::<__Field<1>, Self>(__field2, __to);
                    <u32 as __wire::Encode>::encode(__field3, __to);
                },
            );
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Decode for Stat {
        const LEAST: ::core::primitive::usize = __wire::added::LEAST
            + <u64 as __wire::Decode>::LEAST
            + __wire::carried::least::<__Field<0>, Self>();
        #[inline]
        fn decode<__S: __wire::Source + ?::core::marker::Sized>(
            __from: &mut __S,
        ) -> ::core::result::Result<Self, __wire::DecodeError> {
            let __field0 = <u64 as __wire::Decode>::decode(__from)?;
            let __field1 = __wire::carried::decode::<__Field<0>, Self>(__from)?;
            let mut __from = __from;
            let mut __added = __wire::added::AddedSource::begin(&mut __from)?;
            let __field2 = match __added.has_next() {
                true => __wire::carried::decode::<__Field<1>, Self>(&mut __added)?,
                false => <Option<u32> as ::core::default::Default>::default(),
            };
            let __field3 = match __added.has_next() {
                true => <u32 as __wire::Decode>::decode(&mut __added)?,
                false => {
                    let __default: u32 = 0o644;
                    __default
                }
            };
            __added.end()?;
            ::core::result::Result::Ok(Self {
                size: __field0,
                id: __field1,
                owner: __field2,
                mode: __field3,
            })
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl __wire::Schema for Stat {
        type Itself = Self;
        fn schema(__types: &mut __wire::Types) -> __wire::TypeName {
            let __name = __wire::TypeName::generic("Stat", &[]);
            __types
                .define(
                    ::core::any::type_name::<Self>(),
                    __name,
                    |__types| {
                        let __first = ::std::vec::Vec::from([
                            ("size", <u64 as __wire::Schema>::schema(__types)),
                            ("id", __wire::carried::schema::<__Field<0>, Self>(__types)),
                        ]);
                        let mut __added = ::std::vec::Vec::new();
                        if __types.has(2u32) {
                            __added
                                .push((
                                    "owner",
                                    __wire::carried::schema::<__Field<1>, Self>(__types),
                                ));
                        }
                        if __types.has(3u32) {
                            __added
                                .push(("mode", <u32 as __wire::Schema>::schema(__types)));
                        }
                        __wire::Definition::Extensible {
                            first: __first,
                            added: __added,
                        }
                    },
                )
        }
    }
};
const _: () = {
    use ::underpass::__private::wire as __wire;
    enum __Field<const TYPE: ::core::primitive::usize> {}
    impl<T: __wire::Schema> __wire::Carried<Nothing<T>> for __Field<0> {
        type Itself = T;
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl<T: __wire::Schema> __wire::Encode for Nothing<T> {
        const FIXED: ::core::option::Option<::core::primitive::usize> = ::core::option::Option::None;
        #[inline]
        fn size(&self) -> ::core::primitive::usize {
            match <Self as __wire::Encode>::FIXED {
                ::core::option::Option::Some(__size) => __size,
                ::core::option::Option::None => {
                    let Self { first: __field0 } = self;
                    __wire::added::size(0u8, 0)
                        + __wire::carried::size::<__Field<0>, Self>(__field0)
                }
            }
        }
        #[inline]
        fn encode<__S: __wire::Sink + ?::core::marker::Sized>(&self, __to: &mut __S) {
            let Self { first: __field0 } = self;
            __wire::carried::encode::<__Field<0>, Self>(__field0, __to);
            let mut __to = __to;
            __wire::added::encode(0u8, 0, &mut __to, |__to| {});
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl<T: __wire::Schema> __wire::Decode for Nothing<T> {
        const LEAST: ::core::primitive::usize = __wire::added::LEAST
            + __wire::carried::least::<__Field<0>, Self>();
        #[inline]
        fn decode<__S: __wire::Source + ?::core::marker::Sized>(
            __from: &mut __S,
        ) -> ::core::result::Result<Self, __wire::DecodeError> {
            let __field0 = __wire::carried::decode::<__Field<0>, Self>(__from)?;
            let mut __from = __from;
            let __added = __wire::added::AddedSource::begin(&mut __from)?;
            __added.end()?;
            ::core::result::Result::Ok(Self { first: __field0 })
        }
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl<T: __wire::Schema> __wire::Schema for Nothing<T> {
        type Itself = Self;
        fn schema(__types: &mut __wire::Types) -> __wire::TypeName {
            let __name = __wire::TypeName::generic(
                "Nothing",
                &[<T as __wire::Schema>::schema(__types)],
            );
            __types
                .define(
                    ::core::any::type_name::<Self>(),
                    __name,
                    |__types| {
                        let __first = ::std::vec::Vec::from([
                            (
                                "first",
                                __wire::carried::schema::<__Field<0>, Self>(__types),
                            ),
                        ]);
                        let __added = ::std::vec::Vec::new();
                        __wire::Definition::Extensible {
                            first: __first,
                            added: __added,
                        }
                    },
                )
        }
    }
};
