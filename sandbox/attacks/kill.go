package attacks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/sandbox/loopback"
)

// killMoment is a moment at which purser is killed.
type killMoment struct {
	says string
	door hostile.Door
	key  string
	// fail makes the customer's world kill purser at this moment.
	fail func(w *hostile.World, kill func())
}

const killTries = "kill -9 of purser between journal and answer; it starts again and the client asks again"

// killMoments lists the moments that are tried.
var killMoments = []killMoment{
	{"after its facilitator moved the money", hostile.PayerDoor, "", func(w *hostile.World, kill func()) {
		w.Facilitator.Meet(hostile.FacilitatorFault{On: hostile.Settle, Do: func(c *hostile.Call) {
			c.Serve()
			kill()
			c.Reset()
		}})
	}},
	{"after the seller took the money", hostile.ProxyDoor, "", func(w *hostile.World, kill func()) {
		w.Seller.Meet(hostile.SellerFault{On: hostile.Paid, Do: func(v *hostile.Visit) {
			v.Settle()
			kill()
			v.Reset()
		}})
	}},
	{"when the payload was at the seller", hostile.ProxyDoor, "the-one", func(w *hostile.World, kill func()) {
		w.Seller.Meet(hostile.SellerFault{On: hostile.Paid, Do: func(v *hostile.Visit) {
			kill()
			v.Reset()
		}})
	}},
}

// killed kills a purser at each moment, starts it again on the same store, and repeats the
// customer's request.
func killed(ctx context.Context, e *examination) (outcome, error) {
	p, err := e.launch(ctx, "killed", "")
	if err != nil {
		return outcome{}, err
	}
	list := slices.DeleteFunc(slices.Clone(killMoments), func(t killMoment) bool { return t.door == hostile.ProxyDoor && e.noProxy != "" })
	var victims []*player
	for _, t := range list {
		one, err := e.killAt(ctx, p, t)
		if err != nil {
			return outcome{}, fmt.Errorf("killed %s: %w", t.says, err)
		}
		victims = append(victims, one)
		b, l, err := e.account(ctx, one)
		if err != nil {
			return outcome{}, err
		}
		// A double payment shows at once.
		if wrong := hostile.Audit(b, l, nil); final(wrong) {
			return failed(slices.Concat([]string{"killed " + t.says}, storyOf(wrong, b, l)), killTries), nil
		}
	}
	story, err := gather(ctx, -1, victims, func(ctx context.Context, i int, one *player) ([]string, error) {
		story, err := e.await(ctx, one, func(_ *hostile.World, b hostile.Books, l hostile.Ledger) []hostile.Finding {
			wrong := hostile.Audit(b, l, nil)
			if len(l.Transfers) == 0 {
				wrong = append(wrong, hostile.Finding{Rule: hostile.RuleEnd, Detail: "the order was never paid for"})
			}
			return wrong
		})
		if len(story) > 0 {
			story = slices.Concat([]string{"killed " + list[i].says}, story)
		}
		return story, err
	})
	return verdict(story, killTries, "paid once (%d turns)", len(list)), err
}

// killAt runs one customer's order with a kill at this moment.
func (e *examination) killAt(ctx context.Context, p *purser, t killMoment) (*player, error) {
	one, err := e.enroll(ctx, p, e.neutral)
	if err != nil {
		return nil, err
	}
	dead := make(chan struct{})
	t.fail(one.world, func() {
		p.kill()
		close(dead)
	})
	buy := func() hostile.Result {
		return one.at(t.door).Buy(ctx, one.world.SellerURL, t.door, hostile.Order{ID: firstOrder, Key: t.key})
	}
	if first := buy(); first.Done {
		return nil, fmt.Errorf("the order was delivered before that: %s", first)
	}
	select {
	case <-dead:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(patience):
		return nil, errors.New("it did not get that far")
	}
	if err := p.restart(ctx); err != nil {
		return nil, err
	}
	for range 3 {
		if r := buy(); r.Done || t.key == "" && r.Told() {
			break
		}
	}
	return one, nil
}

// lyingRPC lets recovery search for evidence at RPCs that lie. Recovery must decide nothing by
// them.
func lyingRPC(ctx context.Context, e *examination) (outcome, error) {
	lies := []hostile.RPCFault{hostile.OtherGenesis, hostile.NoLogs, hostile.FromTheFuture, hostile.OnAFork}
	if e.more {
		lies = nil
		for _, s := range hostile.Scenarios() {
			if s.RPC != nil {
				lies = append(lies, *s.RPC)
			}
		}
	}
	// Each lie has its own purser.
	story, err := gather(ctx, 4, lies, func(ctx context.Context, i int, lie hostile.RPCFault) ([]string, error) {
		return e.believes(ctx, fmt.Sprintf("rpc%d", i), lie)
	})
	const tries = "the RPC answers for another chain or for a fork, from the future, or leaves events out"
	return verdict(story, tries, "nothing is decided by it (%d lies)", len(lies)), err
}

// believes plays the scenario of a lie on a purser of its own, and reports what that purser wrongly
// believed.
func (e *examination) believes(ctx context.Context, name string, lie hostile.RPCFault) ([]string, error) {
	rpc := hostile.NewRPC(e.ledger.RPCURL())
	var asked atomic.Int64
	counting := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		rpc.ServeHTTP(w, r)
	})
	server, err := loopback.Serve(ctx, loopback.Options{Name: "RPC"}, counting)
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }()
	p, err := e.launch(ctx, name, server.URL())
	if err != nil {
		return nil, err
	}
	defer p.stop()
	one, err := e.enroll(ctx, p, e.neutral)
	if err != nil {
		return nil, err
	}
	scenario := scenarioNamed("RPC " + lie.Name)
	played := scenario.Play(ctx, one.world, one.customer, hostile.PayerDoor, keyed, firstOrder)
	rpc.Show(lie.Views[0])
	before, _, err := e.account(ctx, one)
	if err != nil {
		return nil, err
	}
	asked.Store(0)
	// Recovery first looks at an expired payment after five seconds, and then every five seconds.
	if err := sleep(ctx, validity+13*time.Second); err != nil {
		return nil, err
	}
	if asked.Load() == 0 {
		return nil, fmt.Errorf("recovery did not ask an RPC that %s", lie.Name)
	}
	now, ledger, err := e.account(ctx, one)
	if err != nil {
		return nil, err
	}
	wrong := played.Meanwhile(before, now, ledger)
	if len(wrong) == 0 {
		return nil, nil
	}
	return slices.Concat([]string{"RPC " + lie.Name}, storyOf(wrong, now, ledger)), nil
}
