@0xbd5f6d8fae5e2a11;

interface Calls {
  null @0 ();
  echo @1 (data :Data) -> (data :Data);
}
