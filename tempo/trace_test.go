package tempo_test

import (
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/tempo"
	"github.com/purserpay/purser/x402"
)

// paid returns a question about a payment with two payees that ends 25 s from now, and the logs of its transaction.
func paid(t *testing.T) (q pay.TraceQuery, logs []entry) {
	t.Helper()
	key, err := x402.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	r := ask(t, splits(split("400", "")), "")
	q = pay.TraceQuery{Network: tempo.Network(), Created: now}
	q.Asset, _ = q.Network.Asset(r.Asset)
	if q.Authorization, err = tempo.NewRail(usual, func() time.Time { return now }).Authorize(t.Context(), authorization(key, r), r); err != nil {
		t.Fatal(err)
	}
	from, to := chain.AddressTopic(key.Address()), chain.AddressTopic(r.PayTo)
	other := chain.AddressTopic(tempo.NewRail(usual, nil).Payees(r)[0].To)
	fees := chain.AddressTopic(x402.EVMAddress([20]byte{0xfe, 0xec}))
	return q, []entry{
		{r.Asset, []string{chain.TopicTransfer, from, to}, 9_600},
		{r.Asset, []string{"0x57bc7354aa85aed339e000bccffabbc529466af35f0772c8f8ee1145927de7f0", from, to, q.Authorization.Nonce.String()}, 9_600},
		{r.Asset, []string{chain.TopicTransfer, from, other}, 400},
		{r.Asset, []string{chain.TopicTransfer, from, fees}, 52},
	}
}

func TestTrace(t *testing.T) {
	t.Parallel()
	const sent = 3 * time.Second
	for _, c := range []struct {
		name              string
		final, head       time.Duration
		node              node
		kept              func(*node) *pay.ChainBlock
		moved             uint64 // 0: not used
		safe, over, wrong bool
	}{
		{name: "not yet", final: 2 * time.Second, head: 2 * time.Second},
		{name: "sent", final: 2 * time.Second, head: 4 * time.Second, node: node{used: at(sent)}, moved: 10_052},
		{name: "final", final: 4 * time.Second, head: 4 * time.Second, node: node{used: at(sent)}, moved: 10_052, safe: true},
		{name: "final, long ago", final: 9 * time.Hour, head: 9 * time.Hour, node: node{used: at(sent), most: 1_000}, moved: 10_052, safe: true, over: true},
		{name: "a second before its end", final: 24 * time.Second, head: 24 * time.Second},
		{name: "never sent", final: 25 * time.Second, head: 25 * time.Second, over: true},
		{name: "never sent, long ago", final: 9 * time.Hour, head: 9 * time.Hour, over: true},
		{name: "not final", final: 24 * time.Second, head: 25 * time.Second},
		{name: "sent before our clock says", final: time.Minute, head: time.Minute, node: node{used: at(-4 * time.Minute)}, moved: 10_052, safe: true, over: true},
		{name: "logs of a range are withheld", final: time.Minute, head: time.Minute, node: node{used: at(sent), withholdsRange: true}, moved: 10_052, safe: true, over: true},
		{name: "a header names another parent", final: time.Minute, head: time.Minute, node: node{brokenAt: at(sent)}, wrong: true},
		{name: "the kept block", final: time.Minute, head: time.Minute, over: true, kept: func(n *node) *pay.ChainBlock {
			return &pay.ChainBlock{Number: at(sent), Hash: n.hash(at(sent))}
		}},
		{name: "another block than the kept one", final: time.Minute, head: time.Minute, wrong: true, kept: func(*node) *pay.ChainBlock {
			return &pay.ChainBlock{Number: at(sent), Hash: tx}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q, logs := paid(t)
			n := &c.node
			n.t, n.final, n.head, n.receipt = t, at(c.final), at(c.head), logs
			if c.kept != nil {
				q.Kept = c.kept(n)
			}
			got, err := n.open().Trace(t.Context(), q)
			if (err != nil) != c.wrong {
				t.Fatalf("%+v, %v", got, err)
			}
			if err != nil {
				return
			}
			over := got.SafeTime.Unix() >= int64(q.Authorization.ValidBefore)
			if got.Used != (c.moved > 0) || got.Moved != money.New(c.moved) || got.SafeLogs != c.safe || got.SafeUsed != c.safe || over != c.over ||
				got.Used != (got.Transaction == tx) || got.SafeHash != n.hash(n.final) || got.Chain.ChainID != 4217 || got.Latest.Unix() != now.Unix()+int64(c.head/time.Second) {
				t.Errorf("%+v", got)
			}
			if q.Kept != nil && got.KeptHash != q.Kept.Hash {
				t.Errorf("kept %s", got.KeptHash)
			}
		})
	}
}

// An RPC alone can hide a payment by lies about everything. The second one must agree, and tells of it.
func TestTraceOfALiar(t *testing.T) {
	t.Parallel()
	q, logs := paid(t)
	final := at(time.Minute)
	honest := &node{t: t, final: final, head: final, used: at(3 * time.Second), receipt: logs}
	liar := &node{t: t, final: final, head: final, used: at(3 * time.Second), receipt: logs, withholdsAll: true, emptyBlooms: true}
	if got, err := liar.open().Trace(t.Context(), q); err != nil || got.Used {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := honest.open().Trace(t.Context(), q); err != nil || !got.Used {
		t.Errorf("%+v, %v", got, err)
	}
}

// Any account can log a transfer of nothing from any wallet, with the memo of its payment. It is no payment, and hides none.
func TestTraceOfNothing(t *testing.T) {
	t.Parallel()
	q, logs := paid(t)
	nothing := logs[1]
	nothing.amount = 0
	final := at(time.Minute)
	for _, lies := range []bool{false, true} {
		n := &node{t: t, final: final, head: final, used: at(3 * time.Second), receipt: []entry{nothing}, withholdsRange: lies}
		if got, err := n.open().Trace(t.Context(), q); err != nil || got.Used || got.SafeTime.Unix() < int64(q.Authorization.ValidBefore) {
			t.Errorf("alone: %+v, %v", got, err)
		}
		n.receipt = append([]entry{nothing}, logs...)
		if got, err := n.open().Trace(t.Context(), q); err != nil || !got.Used || got.Moved != money.New(10_052) {
			t.Errorf("before the payment: %+v, %v", got, err)
		}
	}
}

// However long ago a payment ended, its time alone is looked through.
func TestTraceLongAgo(t *testing.T) {
	t.Parallel()
	long := at(30 * 24 * time.Hour)
	q, _ := paid(t)
	n := &node{t: t, final: long, head: long}
	if got, err := n.open().Trace(t.Context(), q); err != nil || got.Used {
		t.Fatalf("%+v, %v", got, err)
	}
	if asked := n.calls["eth_getLogs"]; asked > 3 {
		t.Errorf("%d questions for logs", asked)
	}
}

// Looks at payments of one time read the headers once.
func TestTraceReadsHeadersOnce(t *testing.T) {
	t.Parallel()
	n := &node{t: t, final: at(time.Minute), head: at(time.Minute)}
	c := n.open()
	var before int
	for i := range 3 {
		q, _ := paid(t)
		if got, err := c.Trace(t.Context(), q); err != nil || got.Used {
			t.Fatalf("%+v, %v", got, err)
		}
		if blocks := n.calls["eth_getBlockByNumber"]; i == 0 {
			before = blocks
		} else if blocks-before > 30*i {
			t.Errorf("%d blocks, and %d at first", blocks, before)
		}
	}
}

// A transaction that has the memo and not the transfers is no answer.
func TestTraceOfOtherTransfers(t *testing.T) {
	t.Parallel()
	for i := range 3 {
		q, logs := paid(t)
		logs[i].amount--
		n := &node{t: t, final: at(time.Minute), head: at(time.Minute), used: at(time.Second), receipt: logs}
		got, err := n.open().Trace(t.Context(), q)
		if i != 1 && (err == nil || !strings.Contains(err.Error(), "not all transfers")) { // the amount beside the memo does not count
			t.Errorf("%d: %+v, %v", i, got, err)
		}
	}
}
