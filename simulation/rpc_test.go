package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// rpc is one purser's view of the chain: the real package chain, whose calls end here in place of a network. Each
// question crosses the border. For some questions, each call crosses it, too.
type rpc struct {
	*chain.Client
	*world
	node *node
	name string
}

var (
	_ pay.Chain        = (*rpc)(nil)
	_ pay.ChainScanner = (*rpc)(nil)
	_ pay.Allowances   = (*rpc)(nil)
)

// newRPC returns a purser's RPC.
func (w *world) newRPC(n *node, name string) *rpc {
	r := &rpc{world: w, node: n, name: name}
	r.Client = must(chain.New(chain.Options{URL: "https://rpc.example", Transport: r, Logger: w.log}))
	return r
}

// question is asked by purser of the chain. It takes several calls of the RPC, which have its fate.
type question struct {
	name string
	luck uint64
	// fails: some of its calls fail. waits: each of them waits at the border.
	fails, waits bool
	lag          uint64 // of some of its calls, in blocks
	strays       int    // of its calls, the first ones come to another chain: then the RPC's name moves back

	mu             sync.Mutex
	called, looked int // its calls, and those for a transaction
}

type questionKey struct{}

// ask takes a question across the border, and draws its fate. An RPC that never fails or lags answers at once.
func (r *rpc) ask(ctx context.Context, name string) (context.Context, error) {
	q := &question{name: name}
	if !r.mix.prompt() {
		luck, err := r.conductor.cross(ctx, r.node, r.name+" "+name)
		if err != nil {
			return nil, err
		}
		r.draw(q, luck)
	}
	return context.WithValue(ctx, questionKey{}, q), nil
}

// draw draws the fate of a question.
func (r *rpc) draw(q *question, luck *rand.Rand) {
	if r.calm() {
		return
	}
	q.luck = luck.Uint64()
	q.waits = luck.IntN(100) < r.mix.chainWaits
	switch {
	case luck.IntN(100) < r.mix.chainFails:
		q.fails = true
	case luck.IntN(100) < r.mix.chainLags:
		q.lag = uint64(luck.IntN(60))
	case luck.IntN(100) < r.mix.chainStrays && strings.HasPrefix(q.name, "trace"):
		q.strays = 1 + luck.IntN(8)
	}
	if q.fails || q.lag > 0 || q.strays > 0 {
		r.conductor.say("%s %s: %s fails %t, lags by %d blocks, strays in %d calls", r.node, r.name, q.name, q.fails, q.lag, q.strays)
	}
}

func (r *rpc) Identify(ctx context.Context, n x402.Network, a x402.Asset) (id pay.ChainIdentity, err error) {
	if ctx, err = r.ask(ctx, "identify"); err == nil {
		id, err = r.Client.Identify(ctx, n, a)
	}
	return id, err
}

func (r *rpc) Balance(ctx context.Context, n x402.Network, a x402.Asset, owner x402.Address) (have money.Amount, err error) {
	if ctx, err = r.ask(ctx, "balance"); err == nil {
		have, err = r.Client.Balance(ctx, n, a, owner)
	}
	return have, err
}

func (r *rpc) Trace(ctx context.Context, q pay.TraceQuery) (t pay.Trace, err error) {
	if ctx, err = r.ask(ctx, "trace "+q.Authorization.Value.String()); err == nil {
		t, err = r.Client.Trace(ctx, q)
		r.tell("trace "+q.Authorization.Value.String(), err, q.Authorization.Nonce.String())
	}
	return t, err
}

// tell says why there is no answer, without a word that differs each time.
func (r *rpc) tell(question string, err error, without string) {
	why := ""
	switch err := errors.Unwrap(err); {
	case err == nil:
		return
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		why = "nothing in time" // which of its calls ends first is not told
	default:
		why = strings.ReplaceAll(err.Error(), without, "…")
	}
	r.conductor.say("%s %s: %s: %s", r.node, r.name, question, why)
}

func (r *rpc) Safe(ctx context.Context, n x402.Network) (b pay.ChainBlock, err error) {
	if ctx, err = r.ask(ctx, "safe block"); err == nil {
		b, err = r.Client.Safe(ctx, n)
	}
	return b, err
}

func (r *rpc) Before(ctx context.Context, n x402.Network, moment time.Time) (b pay.ChainBlock, err error) {
	if ctx, err = r.ask(ctx, "block before"); err == nil {
		b, err = r.Client.Before(ctx, n, moment)
	}
	return b, err
}

func (r *rpc) Used(ctx context.Context, q pay.UsedQuery) (a pay.UsedAnswer, err error) {
	if ctx, err = r.ask(ctx, "used authorizations"); err == nil {
		a, err = r.Client.Used(ctx, q)
	}
	return a, err
}

// call is one call of JSON-RPC.
type call struct {
	Method string
	Params []json.RawMessage
}

// String tells of the call without nonces, which differ each time.
func (c call) String() string {
	if len(c.Params) == 0 {
		return c.Method
	}
	var of struct{ Data, FromBlock, ToBlock, BlockHash string }
	if json.Unmarshal(c.Params[0], &of) != nil {
		return fmt.Sprintf("%s %s", c.Method, c.Params)
	}
	return fmt.Sprintf("%s %.10s%s-%s%s %s", c.Method, of.Data, of.FromBlock, of.ToBlock, of.BlockHash, c.Params[1:])
}

// RoundTrip answers a call. A call of no question above is a question of its own.
func (r *rpc) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	_ = req.Body.Close()
	var call call
	if err = errors.Join(err, json.Unmarshal(body, &call)); err != nil {
		return nil, err
	}
	ctx := req.Context()
	q, asked := ctx.Value(questionKey{}).(*question)
	if !asked {
		if ctx, err = r.ask(ctx, call.Method); err != nil {
			return nil, err
		}
		q = ctx.Value(questionKey{}).(*question)
	}
	if q.waits {
		if _, err := r.conductor.cross(ctx, r.node, fmt.Sprintf("%s %s: %s", r.name, q.name, call)); err != nil {
			return nil, err
		}
	}
	if err = ctx.Err(); r.node.isDead() {
		err = errDied
	}
	if err != nil {
		return nil, err
	}
	called, looked := q.count(call)
	hash := fnv.New64a()
	_, _ = io.WriteString(hash, call.String())
	luck := rand.New(rand.NewPCG(q.luck, hash.Sum64()))
	if q.fails && luck.IntN(3) == 0 {
		return failure(req, luck)
	}
	v := view{ledger: r.chain, head: r.chain.head(), stray: called <= q.strays, limits: r.mix.limits}
	if luck.IntN(2) == 0 {
		v.head -= q.lag
	}
	if v.lookups > 0 && looked > v.lookups {
		return response(req, http.StatusTooManyRequests, "slow down"), nil
	}
	return response(req, http.StatusOK, v.reply(call.Method, call.Params)), nil
}

// count counts a call of the question. looked is 0 unless it asks for a transaction.
func (q *question) count(c call) (called, looked int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.called++
	if c.Method == "eth_getTransactionByHash" {
		q.looked++
		looked = q.looked
	}
	return q.called, looked
}

// failure draws how a call fails.
func failure(req *http.Request, luck *rand.Rand) (*http.Response, error) {
	switch luck.IntN(4) {
	case 0:
		return nil, errLost
	case 1:
		return response(req, http.StatusServiceUnavailable, "unavailable"), nil
	case 2:
		return response(req, http.StatusOK, `{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"limit exceeded"}}`), nil
	}
	return response(req, http.StatusOK, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`), nil
}

// reply returns the text of an answer.
func (v view) reply(method string, params []json.RawMessage) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	result, err := v.answer(method, params)
	answer := map[string]any{"jsonrpc": "2.0", "id": 1}
	var no *refusal
	switch {
	case errors.As(err, &no):
		answer["error"] = no
	case err != nil:
		answer["error"] = &refusal{-32602, err.Error()}
	default:
		answer["result"] = result
	}
	var text bytes.Buffer
	_ = json.NewEncoder(&text).Encode(answer)
	return text.String()
}
