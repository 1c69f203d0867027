package pay_test

import (
	"context"
	"errors"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

// pool is a chain that takes transactions of cancellations, and puts each into a block at once unless it
// is full.
type pool struct {
	*truth
	at       sync.Mutex
	coins    uint64          // of each account, in wei
	base     uint64          // fee
	tip      uint64          // that the RPC advises above 2
	full     bool            // transactions wait
	unheard  bool            // a transaction that was sent gets lost
	deaf     bool            // it is taken, and the answer gets lost
	fails    bool            // transactions fail in their block
	refuses  string          // what a node says to a transaction
	others   uint64          // transactions of the account that purser has not made
	mined    map[string]bool // whether it has not failed
	waiting  map[uint64]*types.Transaction
	canceled map[x402.Nonce]string
	allowed  money.Amount // to Permit2
	sent     []*types.Transaction
	seen     func(*types.Transaction)
	awaited  string // the hash of the last transaction of the present order
	patience func() // ends the order once it has asked for a transaction that comes into no block
}

func (c *pool) AccountState(context.Context, x402.Network, x402.Address) (treasury.AccountState, error) {
	c.at.Lock()
	defer c.at.Unlock()
	if c.down {
		return treasury.AccountState{}, errors.New("rpc down")
	}
	n := uint64(len(c.mined)) + c.others
	return treasury.AccountState{Coins: money.New(c.coins), Mined: n, Sent: n + uint64(len(c.waiting))}, nil
}

func (c *pool) Fees(context.Context, x402.Network) (treasury.Fees, error) {
	c.at.Lock()
	defer c.at.Unlock()
	if c.down {
		return treasury.Fees{}, errors.New("rpc down")
	}
	return treasury.Fees{Base: money.New(c.base), Tip: money.New(2 + c.tip)}, nil
}

func (c *pool) EstimateGas(_ context.Context, _ x402.Network, t treasury.Transaction) (uint64, error) {
	c.at.Lock()
	defer c.at.Unlock()
	if t.To == t.From {
		return 24_000, nil
	}
	if len(t.Data) == approvalSize {
		return 40_000, nil
	}
	nonce := x402.Nonce(t.Data[36:68])
	if c.canceled[nonce] != "" || c.transaction(nonce) != "" {
		return 0, &treasury.RevertError{Reason: "FiatTokenV2: authorization is used or canceled"}
	}
	return 60_000, nil
}

func (c *pool) DataFee(context.Context, x402.Network, treasury.Transaction) (money.Amount, error) {
	return money.New(1_000), nil
}

func (c *pool) Send(_ context.Context, _ x402.Network, s treasury.SignedTransaction) error {
	var t types.Transaction
	if err := t.UnmarshalBinary(s.Raw); err != nil {
		return err
	}
	if t.Hash().Hex() != s.Hash || t.ChainId().Uint64() != 8453 || t.Value().Sign() != 0 {
		return errors.New("not the transaction that it says")
	}
	if c.seen != nil {
		c.seen(&t)
	}
	c.at.Lock()
	defer c.at.Unlock()
	switch {
	case c.refuses != "":
		return &treasury.RejectedError{Reason: c.refuses}
	case c.unheard:
		return errors.New("timed out")
	case t.Nonce() < uint64(len(c.mined))+c.others && !c.mined[s.Hash]:
		return &treasury.RejectedError{Reason: "nonce too low"}
	}
	c.sent, c.awaited = append(c.sent, &t), s.Hash
	if c.waiting[t.Nonce()] = &t; !c.full {
		c.mine()
	}
	if c.deaf {
		return errors.New("timed out")
	}
	return nil
}

// mine is called with at held.
func (c *pool) mine() {
	for _, nonce := range slices.Sorted(maps.Keys(c.waiting)) {
		t := c.waiting[nonce]
		if t.GasFeeCap().Uint64() < c.base+2 {
			return
		}
		c.mined[t.Hash().Hex()] = !c.fails
		c.coins -= 60_000 * (c.base + 2)
		if c.fails {
			delete(c.waiting, nonce)
			continue
		}
		if len(t.Data()) == approvalSize {
			c.allowed, _ = money.FromBig(new(big.Int).SetBytes(t.Data()[36:]))
		} else {
			c.canceled[x402.Nonce(t.Data()[36:68])] = t.Hash().Hex()
		}
		delete(c.waiting, nonce)
	}
}

// approvalSize is the number of bytes of a call of approve.
const approvalSize = 4 + 2*32

func (c *pool) Allowance(_ context.Context, _ x402.Network, _ x402.Asset, owner, spender x402.Address) (money.Amount, error) {
	c.at.Lock()
	defer c.at.Unlock()
	if spender != x402.Permit2 || owner.IsZero() {
		return money.Amount{}, errors.New("of another spender")
	}
	return c.allowed, nil
}

func (c *pool) Mined(_ context.Context, _ x402.Network, hash string) (*treasury.MinedTransaction, error) {
	c.at.Lock()
	defer c.at.Unlock()
	ok, mined := c.mined[hash]
	if !mined {
		if hash == c.awaited && c.patience != nil {
			c.patience()
		}
		return nil, nil
	}
	return &treasury.MinedTransaction{OK: ok, Cost: money.New(60_000)}, nil
}

func (c *pool) Trace(ctx context.Context, q pay.TraceQuery) (pay.Trace, error) {
	t, err := c.truth.Trace(ctx, q)
	c.at.Lock()
	defer c.at.Unlock()
	if by := c.canceled[q.Authorization.Nonce]; by != "" && err == nil {
		t.Canceled, t.Transaction = true, by
		t.SafeUsed, t.SafeLogs = c.lag == 0, c.lag == 0
	}
	return t, err
}

// set changes the pool.
func (c *pool) set(change func()) { c.at.Lock(); defer c.at.Unlock(); change() }

// notary signs transactions as well.
type notary struct {
	*keyring
	signs func()
}

func (notary) Name() string { return "local" }

func (n notary) SignTransaction(ctx context.Context, w pay.Wallet, t treasury.Transaction) (treasury.SignedTransaction, error) {
	if n.signs != nil {
		n.signs()
	}
	s, err := n.Sign(ctx, w, pay.Message{From: t.From, Digest: t.Digest()})
	if err != nil {
		return treasury.SignedTransaction{}, err
	}
	return t.Signed(s)
}

func newPool(t testing.TB, change func(*pay.Options)) (*world, *pool) {
	var c *pool
	w := newWorld(t, func(o *pay.Options) {
		c = &pool{
			truth: o.Chain.(*truth), coins: 1e18, base: 10, mined: map[string]bool{}, waiting: map[uint64]*types.Transaction{},
			canceled: map[x402.Nonce]string{},
		}
		o.Chain, o.Wallets = c, notary{keyring: o.Wallets.(*keyring)}
		if change != nil {
			change(o)
		}
	})
	return w, c
}

// impatient returns the context of an order, which ends when the order waits for what comes into no block.
func (w *world) impatient() (context.Context, context.CancelFunc) {
	ctx, end := context.WithTimeout(context.Background(), time.Minute)
	if c, is := w.payer.Options().Chain.(*pool); is {
		c.set(func() { c.awaited, c.patience = "", end })
	}
	return ctx, end
}

func (w *world) cancel(id string) ([]treasury.Cancellation, error) {
	ctx, end := w.impatient()
	defer end()
	return treasury.Of(w.payer).Cancel(ctx, treasury.Cancel{Wallet: w.store.wallet(), PaymentID: id})
}

// letGo waits until no payment is held: an order leaves those alone that are.
func (w *world) letGo() {
	w.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); pay.GripCount(w.payer) > 0; time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			w.t.Fatal("a payment is still held")
		}
	}
}

func (w *world) mustCancel(id string) treasury.Cancellation {
	w.t.Helper()
	list := must(w.cancel(id))
	if len(list) != 1 || list[0].Err != nil {
		w.t.Fatalf("%+v", list)
	}
	return list[0]
}

// Nothing is signed or sent that is not in the journal.
func TestCancellationIsJournaledFirst(t *testing.T) {
	t.Parallel()
	var w *world
	var id string
	journaled := func(what string, terms *types.Transaction) {
		c := w.payment(id).Canceling
		if c == nil || terms != nil && (c.Terms.Nonce != terms.Nonce() || c.Terms.Gas != terms.Gas() || c.Terms.MaxFee.Big().Cmp(terms.GasFeeCap()) != 0) {
			t.Errorf("%s: the journal has %+v", what, c)
		}
	}
	w, c := newPool(t, func(o *pay.Options) {
		n := o.Wallets.(notary)
		n.signs = func() {
			journaled("a transaction is signed", nil)
			if w.payment(id).Canceling.Terms.Gas == 0 {
				t.Error("a transaction is signed, and its terms are not in the journal")
			}
		}
		o.Wallets = n
	})
	id = w.mustBuy("https://api.example.com/a", "300", "", false).ID
	w.letGo()
	c.seen = func(tx *types.Transaction) { journaled("sent", tx) }
	w.ring.slow = func() { journaled("something is signed", nil) }
	got := w.mustCancel(id)
	if got.Payment.State != pay.Void || got.Payment.Reason != "authorization canceled on chain" || got.Mined == nil || got.Earlier {
		t.Errorf("canceled %+v", got)
	}
	tx := c.sent[0]
	from := must(types.Sender(types.LatestSignerForChainID(tx.ChainId()), tx))
	if from != common.Address(w.store.wallet().Address.EVM()) || tx.To().Hex() != "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913" || tx.Gas() != 75_000 || tx.GasFeeCap().Uint64() != 22 {
		t.Errorf("transaction %+v", tx)
	}
	if p := w.payment(id); p.Reserves() || !slices.ContainsFunc(p.Notes, func(n pay.Note) bool { return strings.Contains(n.Text, tx.Hash().Hex()) }) {
		t.Errorf("payment %+v", p)
	}
	w.checkBooks()
}

// The answer to a transaction is lost, or purser ends before it is sent. The order comes again, and there
// is one transaction.
func TestCancellationIsSentOnce(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*pool){
		"never arrived":        func(c *pool) { c.unheard = true },
		"arrived all the same": func(c *pool) { c.deaf = true },
		"waits for a block":    func(c *pool) { c.full = true },
		"waits, and no answer": func(c *pool) { c.full, c.deaf = true, true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, c := newPool(t, nil)
			p := w.mustBuy("https://api.example.com/a", "300", "", false)
			w.letGo()
			fault(c)
			_, err := w.cancel(p.ID)
			if c.unheard || c.deaf {
				if failed, is := errors.AsType[*treasury.RPCError](err); !is {
					t.Errorf("got %v", failed)
				}
			}
			terms := w.payment(p.ID).Canceling.Terms
			w.restart()
			c.set(func() { c.unheard, c.deaf, c.full, c.base = false, false, false, 11 })
			got := w.mustCancel(p.ID)
			if !got.Earlier || got.Payment.State != pay.Void || len(c.mined) != 1 || !c.mined[got.Transaction] {
				t.Errorf("canceled %+v with %d transactions", got, len(c.mined))
			}
			if now := w.payment(p.ID).Canceling.Terms; now != terms {
				t.Errorf("the terms were %+v and are %+v", terms, now)
			}
			if again := w.mustCancel(p.ID); again.Payment.State != pay.Void || again.Transaction != "" || len(c.mined) != 1 {
				t.Errorf("then %+v", again)
			}
			w.checkBooks()
		})
	}
}

// What waits for a block because fees have risen is sent again with higher ones, in its own place.
func TestCancellationWithHigherFees(t *testing.T) {
	t.Parallel()
	w, c := newPool(t, nil)
	p := w.mustBuy("https://api.example.com/a", "300", "", false)
	w.letGo()
	c.full = true
	if got := w.mustCancel(p.ID); got.Mined != nil || got.Payment.State != pay.Open {
		t.Fatalf("canceled %+v", got)
	}
	c.set(func() { c.full, c.base = false, 100 })
	w.mustCancel(p.ID)
	first, second := c.sent[0], c.sent[1]
	if len(c.sent) != 2 || first.Nonce() != second.Nonce() || second.GasFeeCap().Uint64() != 202 || second.GasTipCap().Uint64() < 3 || w.payment(p.ID).State != pay.Void {
		t.Errorf("%+v, then %+v", first, second)
	}
	limit := treasury.Cancel{Wallet: w.store.wallet(), PaymentID: w.mustBuy("https://api.example.com/b", "300", "", false).ID, MaxFee: some(101)}
	if _, err := treasury.Of(w.payer).Cancel(context.Background(), limit); inputField(err) != "max_fee" {
		t.Errorf("above the agreed fee: %v", err)
	}
}

// Another program uses the account: its transaction is in the place of the journaled one.
func TestCancellationWhoseNonceIsTaken(t *testing.T) {
	t.Parallel()
	w, c := newPool(t, nil)
	p := w.mustBuy("https://api.example.com/a", "300", "", false)
	w.letGo()
	c.unheard = true
	_, _ = w.cancel(p.ID)
	c.set(func() { c.unheard, c.others = false, 1 })
	if got := w.mustCancel(p.ID); got.Payment.State != pay.Void || c.sent[0].Nonce() != 1 || w.payment(p.ID).Canceling.Terms.Nonce != 1 {
		t.Errorf("canceled %+v", got)
	}
}

// A transaction fails in its block, as for want of gas. The authorization is still out, so the next order
// makes another one.
func TestCancellationThatFailsOnTheChain(t *testing.T) {
	t.Parallel()
	w, c := newPool(t, nil)
	p := w.mustBuy("https://api.example.com/a", "300", "", false)
	w.letGo()
	c.fails = true
	if got := must(w.cancel(p.ID))[0]; pay.Code(got.Err) != pay.CodeReverts || got.Mined.OK || got.Payment.State != pay.Open {
		t.Errorf("canceled %+v", got)
	}
	c.set(func() { c.fails = false })
	if got := w.mustCancel(p.ID); got.Payment.State != pay.Void || len(c.sent) != 2 || c.sent[1].Nonce() != 1 {
		t.Errorf("then %+v", got)
	}
	if _, err := w.approve(700); err != nil {
		t.Error(err)
	}
	c.set(func() { c.fails = true })
	if _, err := w.approve(800); pay.Code(err) != pay.CodeReverts {
		t.Errorf("an approval that fails: %v", err)
	}
}

func TestCancellationsOfAWallet(t *testing.T) {
	t.Parallel()
	w, c := newPool(t, nil)
	for _, url := range []string{"a", "b", "c"} {
		w.mustBuy("https://api.example.com/"+url, "300", "", false)
	}
	plan := must(treasury.Of(w.payer).PlanCancel(context.Background(), treasury.Cancel{Wallet: w.store.wallet()}))
	// 84,000 gas at 22 wei, and data twice; 12 wei now, and data once.
	if cost := plan.Cost; len(plan.Payments) != 3 || cost.Each.String() != "1850000" || cost.Most.String() != "5550000" || cost.Now.String() != "3027000" || cost.MaxFee.String() != "22" {
		t.Errorf("plan %+v", plan.Cost)
	}
	c.coins = 5_550_000 // exactly
	list := must(w.cancel(""))
	if len(list) != 3 || len(c.mined) != 3 {
		t.Errorf("%d are canceled by %d transactions", len(list), len(c.mined))
	}
	for i, one := range list {
		if one.Payment.State != pay.Void || c.sent[i].Nonce() != uint64(i) {
			t.Errorf("%d: %+v", i, one.Payment)
		}
	}
	if list := must(w.cancel("")); len(list) != 0 {
		t.Errorf("then %+v", list)
	}
	w.checkBooks()
}

// A transfer is on the chain before the cancellation. The chain decides.
func TestCancellationThatComesTooLate(t *testing.T) {
	t.Parallel()
	w, c := newPool(t, nil)
	a := w.mustOpen(w.proxied("https://api.example.com/a", "300", ""))
	moved := w.sellerMoves(a.Payload())
	if got := w.mustCancel(a.Payment().ID); got.Payment.State != pay.Open || got.Refused == "" || len(c.sent) != 0 {
		t.Errorf("while it is being sent: %+v", got)
	}
	a.Finish(false)
	w.idle()
	got := w.mustCancel(a.Payment().ID)
	if got.Payment.State != pay.Settled || got.Payment.Transaction != moved || len(c.sent) != 0 {
		t.Errorf("canceled %+v", got)
	}
	if _, err := w.cancel(a.Payment().ID); pay.Code(err) != pay.CodeUncancelable {
		t.Errorf("a settled one: %v", err)
	}
	w.booksAreTheChain()
	w.checkBooks()
}

// While a send has the payment, it is canceled all the same.
func TestCancellationDuringASend(t *testing.T) {
	t.Parallel()
	w, c := newPool(t, nil)
	a := w.mustOpen(w.proxied("https://api.example.com/a", "300", ""))
	if got := w.mustCancel(a.Payment().ID); got.Mined == nil || got.Payment.State != pay.Open || len(c.mined) != 1 {
		t.Errorf("canceled %+v", got)
	}
	a.Answer402("invalid_exact_evm_nonce_already_used")
	a.Finish(false)
	w.idle()
	if p := w.payment(a.Payment().ID); p.State != pay.Void || p.Doubted {
		t.Errorf("afterwards it is %+v", p)
	}
	w.checkBooks()
}

// purser sends nothing more of what is being canceled. Once it is void for good, the request is paid anew.
func TestRepeatOfACanceledPayment(t *testing.T) {
	t.Parallel()
	w, c := newPool(t, nil)
	r := w.proxied("https://api.example.com/a", "300", "")
	a := w.mustOpen(r)
	a.Finish(false)
	w.idle()
	c.mu.Lock()
	c.lag = 30 * time.Second
	c.mu.Unlock()
	if got := w.mustCancel(a.Payment().ID); got.Payment.State != pay.Open || got.Mined == nil {
		t.Fatalf("canceled %+v", got)
	}
	if _, err := w.payer.Open(context.Background(), r); pay.Code(err) != pay.CodeOpen {
		t.Errorf("the repeat got %v", err)
	}
	c.mu.Lock()
	c.lag = 0
	c.mu.Unlock()
	w.recoverAll()
	again := w.mustOpen(r)
	again.Finish(true)
	w.idle()
	if again.Payment().ID == a.Payment().ID || w.payment(a.Payment().ID).State != pay.Void {
		t.Errorf("then it got %+v", again.Payment())
	}
}

// Without an RPC, "used already" says nothing about a payment whose signed cancellation is out. Before,
// it was booked as settled.
func TestUsedIsNoSettlementOfWhatIsCanceled(t *testing.T) {
	t.Parallel()
	w, _ := newPool(t, func(o *pay.Options) { o.Chain = nil })
	a := w.mustOpen(w.proxied("https://api.example.com/a", "300", ""))
	out, err := treasury.Of(w.payer).Cancel(context.Background(), treasury.Cancel{Wallet: w.store.wallet(), Sign: true})
	if err != nil || len(out) != 1 || out[0].Signature == nil {
		t.Fatalf("%+v, %v", out, err)
	}
	base, _ := x402.NetworkByWire("base")
	if from := must(x402.Recover(out[0].Message().Digest(base.Assets[0], base.ChainID), *out[0].Signature)); from != *w.store.wallet().Address {
		t.Errorf("signed by %s", from)
	}
	if p := w.payment(a.Payment().ID); !p.Canceling.HandedOut {
		t.Errorf("the journal has %+v", p.Canceling)
	}
	a.Answer402("invalid_exact_evm_nonce_already_used")
	a.Finish(false)
	w.idle()
	if p := w.payment(a.Payment().ID); p.State != pay.Open || len(w.store.events()) != 0 {
		t.Errorf("it is %s", p.State)
	}
	w.chain.advance(time.Hour)
	w.recoverOnce()
	if p := w.payment(a.Payment().ID); !p.Unresolved {
		t.Errorf("it is %s %v", p.State, p.Flags())
	}
	if _, err := w.cancel(""); err != nil { // nothing is left to cancel
		t.Error(err)
	}
	w.checkBooks()
}

func TestCancellationRefused(t *testing.T) {
	t.Parallel()
	w, c := newPool(t, nil)
	p := w.mustBuy("https://api.example.com/a", "300", "", false)
	w.letGo()
	code := func(name string, want pay.ErrorCode, words string) {
		t.Helper()
		_, err := w.cancel(p.ID)
		_, planned := treasury.Of(w.payer).PlanCancel(context.Background(), treasury.Cancel{Wallet: w.store.wallet(), PaymentID: p.ID})
		if pay.Code(err) != want || !strings.Contains(err.Error(), words) || name != "refused" && pay.Code(planned) != want {
			t.Errorf("%s: %v; planned: %v", name, err, planned)
		}
	}
	c.set(func() { c.coins = 1_000 })
	code("no gas", pay.CodeGas, w.store.wallet().Address.String()+" needs up to 0.00000000000165")
	c.set(func() { c.coins = 1e18 })
	w.chain.rpc(true, false)
	code("RPC down", pay.CodeRPC, "rpc down")
	w.chain.rpc(false, false)
	w.chain.advance(10 * time.Second) // the check of the RPC is remembered
	c.set(func() { c.refuses = "transaction type not supported" })
	code("refused", pay.CodeRejected, "not supported")
	c.set(func() { c.refuses = "" })

	if _, err := w.cancel("0199"); !errors.Is(err, pay.ErrPaymentNotFound) {
		t.Errorf("unknown: %v", err)
	}
	stranger := w.store.wallet()
	stranger.ID = "another"
	if _, err := treasury.Of(w.payer).Cancel(context.Background(), treasury.Cancel{Wallet: stranger, PaymentID: p.ID}); inputField(err) != "payment" {
		t.Errorf("of another wallet: %v", err)
	}
	stranger = w.store.wallet()
	stranger.ProviderID = "cdp_1"
	if _, err := treasury.Of(w.payer).Cancel(context.Background(), treasury.Cancel{Wallet: stranger, PaymentID: p.ID}); inputField(err) != "wallet" {
		t.Errorf("of another provider: %v", err)
	}
	w.chain.advance(time.Hour)
	code("expired", pay.CodeUncancelable, "it has expired")
	plan := must(treasury.Of(w.payer).PlanCancel(context.Background(), treasury.Cancel{Wallet: w.store.wallet()}))
	if len(plan.Payments) != 0 || plan.Cost != nil || plan.Expired != 1 {
		t.Errorf("plan %+v", plan)
	}
	if len(c.sent) != 0 {
		t.Errorf("%d transactions", len(c.sent))
	}
}

// A signer that signs typed data only can hand out cancellations.
func TestCancellationBySignersWithoutTransactions(t *testing.T) {
	t.Parallel()
	w, _ := newPool(t, func(o *pay.Options) { o.Wallets = struct{ pay.Wallets }{o.Wallets} })
	p := w.mustBuy("https://api.example.com/a", "300", "", false)
	w.letGo()
	if _, err := w.cancel(p.ID); !errors.Is(err, treasury.ErrNoTransactions) {
		t.Errorf("got %v", err)
	}
	if w.payment(p.ID).Canceling != nil {
		t.Error("it is being canceled")
	}
	out := must(treasury.Of(w.payer).Cancel(context.Background(), treasury.Cancel{Wallet: w.store.wallet(), PaymentID: p.ID, Sign: true}))
	if len(out) != 1 || out[0].Signature == nil {
		t.Errorf("%+v", out)
	}
}

// What is signed is what EIP-1559 says, by the library's word.
func TestTransactionEncoding(t *testing.T) {
	t.Parallel()
	key := must(crypto.GenerateKey())
	from := x402.EVMAddress(crypto.PubkeyToAddress(key.PublicKey))
	for _, terms := range []pay.TransactionTerms{
		{},
		{Nonce: 1, Gas: 21_000, MaxFee: money.New(1e18), Tip: money.New(1)},
		{Nonce: 1 << 40, Gas: 1 << 33, MaxFee: money.New(200), Tip: money.New(127)},
	} {
		tx := treasury.Transaction{ChainID: 8453, From: from, To: owner, Data: []byte{1, 2}, TransactionTerms: terms}
		to := common.Address(tx.To.EVM())
		want := types.NewTx(&types.DynamicFeeTx{
			ChainID: new(money.New(8453)).Big(), Nonce: terms.Nonce, GasTipCap: terms.Tip.Big(), GasFeeCap: terms.MaxFee.Big(), Gas: terms.Gas, To: &to, Data: tx.Data,
		})
		signer := types.LatestSignerForChainID(new(money.New(8453)).Big())
		if digest := tx.Digest(); signer.Hash(want) != common.Hash(digest) {
			t.Errorf("%+v: digest %x", terms, digest)
		}
		signed := must(types.SignTx(want, signer, key))
		got := must(tx.Signed(must(x402test.Sign(tx.Digest(), key))))
		if raw := must(signed.MarshalBinary()); string(raw) != string(got.Raw) || got.Hash != signed.Hash().Hex() {
			t.Errorf("%+v: %x, want %x", terms, got.Raw, raw)
		}
		tx.From = owner
		if _, err := tx.Signed(must(x402test.Sign(tx.Digest(), key))); err == nil {
			t.Error("it takes the signature of another account")
		}
	}
}
