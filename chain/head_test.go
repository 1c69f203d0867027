package chain_test

import (
	"testing"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/pay"
)

func TestSafe(t *testing.T) {
	t.Parallel()
	n := onBase()
	c := connect(t, n, chain.Options{})
	for _, step := range []struct {
		noSafe bool
		want   uint64
	}{{false, n.safe}, {true, n.safe - 10}} {
		n.noSafe = step.noSafe
		b, err := c.Safe(t.Context())
		if err != nil || b.Number != step.want || b.Hash != hash(step.want) || b.Time.Unix() != n.time(step.want) {
			t.Errorf("%+v, %v; want block %d", b, err, step.want)
		}
	}
	if b, err := connect(t, says(200, `{}`), chain.Options{}).Safe(t.Context()); err == nil || b != (pay.ChainBlock{}) {
		t.Errorf("%+v, %v", b, err)
	}
}
