package attacks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/ports"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/sandbox/ledger"
	"github.com/purserpay/purser/sandbox/loopback"
	"github.com/purserpay/purser/x402"
)

const (
	// validity is the time that sellers give payers. A repeat on a busy machine must still fall
	// into it. It is slightly longer than the 20 seconds after which recovery first looks at a
	// payment. A payment that is settled or open then is looked at again 5 seconds after its
	// expiry, and its outcome is known. After a later first look, the second one would come only 40
	// seconds later.
	validity = 22 * time.Second
	// lastLook is the time after expiry by which recovery has looked at a payment, twice if its
	// first look failed.
	lastLook = 75 * time.Second
	// patience bounds a customer's wait for an answer.
	patience = 40 * time.Second
	// longestDir is the longest folder name in which socket paths still fit. Systems allow about
	// 100 bytes for a path.
	longestDir = 70
	// slowStore bounds the time until a new key is known.
	slowStore = 15 * time.Second
	// funds is the first balance of a customer in smallest units: a million dollars.
	funds = 1_000_000_000_000
)

// world surrounds the pursers under examination. It has the ledger that holds their money, and one
// address for all their facilitators.
type world struct {
	program string
	dir     string
	sockets string // folder of the admin sockets
	config  []byte
	environ environment

	ledger      *ledger.Ledger
	honest      http.Handler
	facilitator *loopback.Server
	free        ports.Free

	mu      sync.Mutex
	owners  map[x402.Address]*hostile.World // by the wallet whose payments meet its faults
	pursers []*purser
	players []*player
}

// newWorld starts the ledger and the facilitators. The caller must call Close.
func newWorld(ctx context.Context, program, dir string, config []byte, environ environment) (*world, error) {
	w := &world{
		program: program, dir: dir, sockets: dir, config: config, environ: environ,
		owners: map[x402.Address]*hostile.World{},
	}
	var err error
	if len(dir) > longestDir {
		if w.sockets, err = os.MkdirTemp("/tmp", "purser-"); err != nil {
			return nil, fmt.Errorf("%s is too long for sockets: %w", dir, err)
		}
	}
	w.ledger, err = ledger.Start(ctx, ledger.Options{})
	if err == nil {
		w.honest = honest.NewFacilitator(w.ledger, nil)
		w.facilitator, err = loopback.Serve(ctx, loopback.Options{Name: "facilitator"}, http.HandlerFunc(w.facilitate))
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Close ends all pursers and servers.
func (w *world) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ends sync.WaitGroup
	for _, p := range w.pursers {
		ends.Go(p.stop)
	}
	ends.Wait()
	errs := []error{w.facilitator.Close(), w.ledger.Close()}
	for _, p := range w.players {
		errs = append(errs, p.world.Close())
	}
	if w.sockets != w.dir {
		errs = append(errs, os.RemoveAll(w.sockets))
	}
	return errors.Join(errs...)
}

// facilitate passes each call to the facilitator of the paying customer, because purser is
// configured with only one.
func (w *world) facilitate(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	w.mu.Lock()
	of := w.owners[hostile.AuthorizationOf(body).From]
	w.mu.Unlock()
	if of == nil {
		w.honest.ServeHTTP(out, r)
		return
	}
	of.Facilitator.ServeHTTP(out, r)
}

// port returns a free port on loopback, each once.
func (w *world) port() (int, error) { return w.free.Block(1) }

// launch starts a purser with a scratch copy of the configuration. rpc is its RPC; empty means the
// ledger.
func (w *world) launch(ctx context.Context, name, rpc string) (*purser, error) {
	if rpc == "" {
		rpc = w.ledger.RPCURL()
	}
	for tries := 1; ; tries++ {
		s, err := scratch(w.config, w.environ, filepath.Join(w.dir, name), addresses{
			facilitator: w.facilitator.URL(), rpc: rpc, socket: filepath.Join(w.sockets, name+".sock"), ports: w.port,
		})
		if err != nil {
			return nil, err
		}
		p := &purser{setup: s, program: w.program}
		err = p.start(ctx)
		if errors.Is(err, errTaken) && tries < 5 {
			continue
		}
		w.mu.Lock()
		w.pursers = append(w.pursers, p)
		w.mu.Unlock()
		return p, err
	}
}

// player is a customer of a purser, with a seller, a facilitator and a thief of its own.
type player struct {
	world    *hostile.World
	purser   *purser
	id       string            // id of its key
	customer *hostile.Customer // at the API
	proxied  *hostile.Customer // at the proxy; nil without a proxy
	inForce  policy.Policy     // the limits of its key, which hold at every door
}

// at returns the customer at a door.
func (p *player) at(door hostile.Door) *hostile.Customer {
	if door == hostile.ProxyDoor {
		return p.proxied
	}
	return p.customer
}

// enroll makes a customer with money, a wallet and a world of its own. policy becomes the policy of its key;
// nil leaves the configured limits alone.
func (w *world) enroll(ctx context.Context, at *purser, policy *policy.Policy) (*player, error) {
	p := &player{purser: at}
	var err error
	if p.world, err = hostile.Start(ctx, hostile.Options{Chain: w.ledger, Validity: validity}); err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.players = append(w.players, p)
	w.mu.Unlock()
	body, err := json.Marshal(map[string]any{"label": "attack", "network": "base", "policy": policy, "wallet": "new"})
	if err != nil {
		return nil, err
	}
	text, err := at.operator(ctx, http.MethodPost, "/purser/keys", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	var made struct{ Key, ID, Address string }
	if err := json.Unmarshal(text, &made); err != nil {
		return nil, fmt.Errorf("a new key: %w", err)
	}
	p.id = made.ID
	// A new key may take a moment, because purser returns it before it is written.
	for deadline := time.Now().Add(slowStore); ; {
		if err = p.readLimits(ctx); err == nil {
			err = w.settle(ctx, p, made.Key)
		}
		if err == nil || time.Now().After(deadline) {
			return p, err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// settle makes the customers of a key at the player's purser, with money.
func (w *world) settle(ctx context.Context, p *player, key string) (err error) {
	if p.customer, err = hostile.Deployment(ctx, p.purser.url(), key); err != nil {
		return err
	}
	p.customer.Patience = patience
	if p.purser.proxy != "" {
		if p.proxied, err = p.customer.At("http://" + p.purser.proxy); err != nil {
			return err
		}
	}
	w.mu.Lock()
	w.owners[p.customer.Wallet] = p.world
	w.mu.Unlock()
	return p.world.Fund(ctx, p.customer.Wallet, money.New(funds))
}

// readLimits reads the limits of the player's key.
func (p *player) readLimits(ctx context.Context) error {
	text, err := p.purser.operator(ctx, http.MethodGet, "/purser/keys/"+p.id, nil)
	if err != nil {
		return err
	}
	var shown struct {
		InForce map[policy.Door]policy.Policy `json:"in_force"`
	}
	if err := json.Unmarshal(text, &shown); err != nil {
		return fmt.Errorf("a new key's limits: %w", err)
	}
	p.inForce = shown.InForce[policy.DoorProxy]
	return nil
}

// account reads a customer's books and its transfers on the ledger.
func (w *world) account(ctx context.Context, p *player) (hostile.Books, hostile.Ledger, error) {
	b, err := hostile.ReadBooks(ctx, p.customer)
	if err != nil {
		return b, hostile.Ledger{}, err
	}
	l, err := hostile.ReadLedger(ctx, w.ledger, p.customer.Wallet)
	return b, l, err
}

// secretsOf returns all secrets that must not leak.
func (w *world) secretsOf(p *purser) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Clone(p.secrets)
	for _, one := range w.players {
		if one.customer != nil && one.purser == p {
			all = append(all, one.customer.Key)
		}
	}
	return all
}
