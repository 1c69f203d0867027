package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/sandbox/ledger"
	"github.com/purserpay/purser/x402"
)

const (
	// validity is how long sellers let payers take; on a busy machine a repeat must still fall into it. It is a little more
	// than the 20 seconds after which recovery looks at a payment first. What that finds settled, or still open, is looked
	// at again 5 seconds after it has expired, and then all is known; after a first look that comes later than that, the
	// second one would be 40 seconds away.
	validity = 22 * time.Second
	// lastLook is by when recovery has looked at a payment that is no longer valid, twice if its first look failed.
	lastLook = 75 * time.Second
	// patience is how long a customer waits for an answer.
	patience = 40 * time.Second
	// longestDir is how long the name of a folder may be in which sockets still fit: systems allow about a hundred bytes.
	longestDir = 70
	// slowStore is by when a new key is known.
	slowStore = 15 * time.Second
	// funds are what a customer starts with, in the token's smallest unit: a million dollars.
	funds = 1_000_000_000_000
)

// world is what is around the pursers under examination: the ledger that their money is in, and one address for all
// their facilitators.
type world struct {
	program string
	dir     string
	sockets string // folder of the admin endpoints
	config  []byte
	environ environment

	ledger      *ledger.Ledger
	honest      http.Handler
	facilitator *http.Server
	at          string // the facilitator's URL
	served      chan error
	// other serves what else is at that address, by its path.
	other func(path string) http.Handler

	mu      sync.Mutex
	owners  map[x402.Address]*hostile.World // by the wallet whose payments meet its faults
	pursers []*purser
	players []*player
	ports   map[int]bool
}

// newWorld opens the ledger and the facilitators. Close must be called.
func newWorld(
	ctx context.Context, program, dir string, config []byte, environ environment, other func(path string) http.Handler,
) (*world, error) {
	w := &world{
		program: program, dir: dir, sockets: dir, config: config, environ: environ,
		owners: map[x402.Address]*hostile.World{}, ports: map[int]bool{}, served: make(chan error, 1),
		other: other,
	}
	var err error
	if len(dir) > longestDir {
		if w.sockets, err = os.MkdirTemp("/tmp", "purser-"); err != nil {
			return nil, fmt.Errorf("%s is too long for sockets: %w", dir, err)
		}
	}
	if w.ledger, err = ledger.Start(ctx, ledger.Options{}); err != nil {
		return nil, errors.Join(err, w.forget())
	}
	w.honest = honest.NewFacilitator(w.ledger, nil)
	socket, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, w.ledger.Close(), w.forget())
	}
	w.at = "http://" + socket.Addr().String()
	w.facilitator = &http.Server{
		Handler: http.HandlerFunc(w.facilitate), ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	go func() { w.served <- w.facilitator.Serve(socket) }()
	return w, nil
}

// Close ends everything that is left.
func (w *world) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ends sync.WaitGroup
	for _, p := range w.pursers {
		ends.Go(p.stop)
	}
	ends.Wait()
	var errs []error
	for _, p := range w.players {
		errs = append(errs, p.world.Close())
	}
	err := w.facilitator.Close()
	if served := <-w.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(append(errs, err, w.ledger.Close(), w.forget())...)
}

// forget removes what is outside of the scratch folder.
func (w *world) forget() error {
	if w.sockets == w.dir {
		return nil
	}
	return os.RemoveAll(w.sockets)
}

// facilitate lets each call meet the facilitator of the customer whose payment it is about: purser knows only one.
func (w *world) facilitate(out http.ResponseWriter, r *http.Request) {
	if other := w.other(r.URL.Path); other != nil {
		other.ServeHTTP(out, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var seen struct {
		Version int             `json:"x402Version"`
		Payload json.RawMessage `json:"paymentPayload"`
	}
	_ = json.Unmarshal(body, &seen) // what is no call is refused by any of them
	a, _, err := x402.Payload{Version: seen.Version, JSON: seen.Payload}.Authorization()
	w.mu.Lock()
	of := w.owners[a.From]
	w.mu.Unlock()
	if err != nil || of == nil {
		w.honest.ServeHTTP(out, r)
		return
	}
	of.Facilitator.ServeHTTP(out, r)
}

// Ports are taken from below those that systems give to connections that go out, which would take them otherwise while a
// purser is down.
const firstPort, ports = 20_000, 12_000

// port is a free port on loopback that was not given before.
func (w *world) port() (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range ports {
		n := firstPort + rand.IntN(ports) //nolint:gosec // no secret
		if w.ports[n] {
			continue
		}
		w.ports[n] = true
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n))) //nolint:noctx // at once, or not at all
		if err != nil {
			continue
		}
		return n, l.Close()
	}
	return 0, errors.New("no port is free on 127.0.0.1")
}

// launch starts a purser with a scratch copy of the configuration. rpc is what it takes for the chain; empty is the
// ledger.
func (w *world) launch(ctx context.Context, name, rpc string) (*purser, error) {
	if rpc == "" {
		rpc = w.ledger.RPCURL()
	}
	for tries := 1; ; tries++ {
		s, err := scratch(w.config, w.environ, filepath.Join(w.dir, name), addresses{
			facilitator: w.at, rpc: rpc, socket: filepath.Join(w.sockets, name+".sock"), ports: w.port,
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
	id       string            // of its key
	customer *hostile.Customer // at the API
	proxied  *hostile.Customer // at the proxy; nil if there is none
	inForce  pay.Policy        // what its key may spend at the proxy, and so at every door
}

// at is the customer at a door.
func (p *player) at(door hostile.Door) *hostile.Customer {
	if door == hostile.ProxyDoor {
		return p.proxied
	}
	return p.customer
}

// enroll makes a customer with money, and a world of its own around it. The policy is its key's own; nil has it live
// by the configuration's alone.
func (w *world) enroll(ctx context.Context, at *purser, policy *pay.Policy) (*player, error) {
	p := &player{purser: at}
	var err error
	if p.world, err = hostile.Start(ctx, hostile.Options{Chain: w.ledger, Validity: validity}); err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.players = append(w.players, p)
	w.mu.Unlock()
	body, err := json.Marshal(map[string]any{"label": "doctor", "network": "base", "policy": policy})
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
	// At once, unless purser tells of keys that it has not written yet.
	for deadline := time.Now().Add(slowStore); ; {
		err = p.introduce(ctx, made.Key)
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return nil, err
		}
	}
	if at.proxy != "" {
		if p.proxied, err = p.customer.At("http://" + at.proxy); err != nil {
			return nil, err
		}
		p.proxied.Patience = patience
	}
	p.customer.Patience = patience
	w.mu.Lock()
	w.owners[p.customer.Wallet] = p.world
	w.mu.Unlock()
	return p, w.ledger.Fund(ctx, address(p.customer.Wallet), x402.NewAmount(funds).Big())
}

// introduce makes a customer of a key, and asks what it may spend.
func (p *player) introduce(ctx context.Context, key string) error {
	text, err := p.purser.operator(ctx, http.MethodGet, "/purser/keys/"+p.id, nil)
	if err != nil {
		return err
	}
	var shown struct {
		InForce map[pay.Door]pay.Policy `json:"in_force"`
	}
	if err := json.Unmarshal(text, &shown); err != nil {
		return fmt.Errorf("a new key's limits: %w", err)
	}
	p.inForce = shown.InForce[pay.DoorProxy]
	p.customer, err = hostile.Deployment(ctx, p.purser.url(), key)
	return err
}

// account reads a customer's books and what the ledger has.
func (w *world) account(ctx context.Context, p *player) (hostile.Books, hostile.Ledger, error) {
	b, err := hostile.ReadBooks(ctx, p.customer)
	if err != nil {
		return b, hostile.Ledger{}, err
	}
	l, err := hostile.ReadLedger(ctx, w.ledger, p.customer.Wallet)
	return b, l, err
}

// address is an account as the ledger names it.
func address(a x402.Address) common.Address { return common.Address(a) }

// secretsOf are all that nobody may be told.
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
