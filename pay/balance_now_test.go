package pay_test

import (
	"testing"
	"time"
)

// An operator sees what a wallet has now, and has the chain asked for it once in a second. That
// does not use up the look that a payment may take.
func TestWalletBalanceNow(t *testing.T) {
	t.Parallel()
	w, chain, buy := fundedWorld(t)
	list, err := w.books.ListWallets(t.Context(), w.key)
	if err != nil {
		t.Fatal(err)
	}
	set := func(have uint64) { chain.set(func(c *fundedChain) { c.have = have }) }
	shows := func(want string) {
		t.Helper()
		if have, err := w.payer.WalletBalanceNow(t.Context(), list[0]); err != nil || have.String() != want {
			t.Errorf("%s, %v; want %s", have, err, want)
		}
	}
	set(7)
	shows("7")
	set(9)
	shows("7") // it was looked at just now
	w.chain.advance(time.Second)
	shows("9")
	set(3)
	if have, err := w.payer.WalletBalance(t.Context(), list[0]); err != nil || have.String() != "9" {
		t.Errorf("%s, %v: others need no look of their own", have, err)
	}
	w.chain.advance(time.Second)
	shows("3")
	set(5)
	if err := buy(t.Context()); err != nil {
		t.Errorf("right after somebody looked at the wallet: %v", err)
	}
}
