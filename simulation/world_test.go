package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
	"github.com/purserpay/purser/payapi"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/signer"
	"github.com/purserpay/purser/x402"
)

// world is everything in one run.
type world struct {
	t         testing.TB
	dir       string
	mix       mix
	conductor *conductor
	chain     *ledger
	sellers   *sellers
	shared    pay.Store // in memory; nil: each purser has its file
	nodes     []*node
	people    *people
	wallets   map[string]pay.Wallet // by key
	moments   moments
	agents    *node // the machine of the agents, which does not die
	lives     int   // pursers that were started
	orders    []*order
	abandoned []*attempt
	backup    []byte // the newest; nil: none
	tasks     sync.WaitGroup
	log       *slog.Logger
	peace     atomic.Bool // faults are over

	mu         sync.Mutex
	signatures map[use]signature
	forgiven   map[use]bool // what a backup need not have
	left       map[int]bool // orders of which a payload has reached a seller
	broken     []string     // rules that do not hold
}

// calm reports whether faults are over.
func (w *world) calm() bool { return w.peace.Load() }

// use names an authorization as the chain does. Sellers of MPP choose the nonce, so that two wallets may have one.
type use struct {
	from  x402.Address
	nonce x402.Nonce
}

func useOf(a x402.Authorization) use { return use{a.From, a.Nonce} }

// signature holds the amount that a wallet has signed away. Its payee may move that until it ends.
type signature struct {
	value money.Amount
	ends  time.Time
}

// read reads a message of the token, or one of Permit2.
func (s *signature) read(message map[string]any) (nonce x402.Nonce, err error) {
	text := func(of map[string]any, name string) string {
		value, _ := of[name].(string)
		return value
	}
	value, ends := text(message, "value"), text(message, "validBefore")
	nonce, err = x402.ParseNonce(text(message, "nonce"))
	if permitted, is := message["permitted"].(map[string]any); is {
		var number money.Amount
		number, err = money.Parse(text(message, "nonce"))
		nonce, value, ends = number.Bytes32(), text(permitted, "amount"), text(message, "deadline")
	}
	seconds, unread := strconv.ParseInt(ends, 10, 64)
	if err = errors.Join(err, unread); err == nil {
		s.value, err = money.Parse(value)
	}
	s.ends = time.Unix(seconds, 0)
	return nonce, err
}

// signed remembers a signature.
func (w *world) signed(m pay.Message) {
	var s signature
	nonce, err := s.read(m.TypedData().Message)
	if err != nil {
		w.violated("a signature cannot be read: %v", err)
	}
	w.checkSignature(use{m.From, nonce}, s)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.signatures[use{m.From, nonce}] = s
}

// violated notes that a rule does not hold.
func (w *world) violated(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.broken, text) {
		w.conductor.say("VIOLATION: %s", text)
		w.broken = append(w.broken, text)
	}
}

// node is one purser, until it dies.
type node struct {
	name    string
	place   int // among the nodes
	dir     string
	dead    atomic.Bool
	skew    atomic.Int64 // of its clock
	moments *moments

	bolt    *boltstore.DB
	store   pay.Store // without the border
	payer   *pay.Payer
	door    *proxy.Transport
	api     *payapi.API
	working atomic.Bool // recovery has a round
}

func (n *node) String() string { return n.name }
func (n *node) isDead() bool   { return n.dead.Load() }

// now is the purser's clock.
func (n *node) now() time.Time {
	if looking() {
		n.moments.wait()
	}
	return time.Now().Add(time.Duration(n.skew.Load()))
}

// masterKey is that of all stores.
const masterKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

// newWorld starts the pursers and makes keys, wallets and orders.
func newWorld(t testing.TB, seed uint64, dir string) *world {
	t.Helper()
	luck := rand.New(rand.NewPCG(seed, 0))
	w := &world{
		t: t, dir: dir, conductor: &conductor{luck: luck, began: time.Now()}, log: slog.New(slog.DiscardHandler),
		chain: newLedger(), sellers: &sellers{}, agents: &node{name: "agent"}, people: newPeople(),
		wallets: map[string]pay.Wallet{}, signatures: map[use]signature{}, forgiven: map[use]bool{}, left: map[int]bool{},
	}
	w.mix = drawMix(luck)
	tools := rand.New(rand.NewPCG(seed, toolStream))
	w.mix.toolMix = drawTools(tools)
	w.mix.mppMix = drawMPP(rand.New(rand.NewPCG(seed, mppStream)), w.mix)
	w.chain.habits = w.mix.habits
	w.conductor.say("seed %d: %+v", seed, w.mix)
	if w.mix.shared {
		w.shared = memory.New(memory.Options{})
	}
	for place := range w.mix.nodes {
		dir := filepath.Join(dir, fmt.Sprintf("life-%d", w.lives))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		w.nodes = append(w.nodes, w.start(place, dir))
	}
	w.populate()
	for _, o := range w.orders {
		if o.tool = o.door == proxyDoor && tools.IntN(100) < w.mix.tools; o.tool {
			o.path, o.posts, o.resumes = toolPath, true, tools.IntN(100) < w.mix.resumes
		}
		if h := w.mix.mppOf(o.number); h.is {
			o.own = h.own && o.door == proxyDoor && !o.tool
		}
	}
	return w
}

// toolStream is the second half of the seed by which calls of tools are drawn. By it the seeds of [TestFormerFailures]
// have none.
const toolStream = 1

// start starts a purser on what a folder has.
func (w *world) start(place int, dir string) *node {
	w.lives++
	n := &node{name: fmt.Sprintf("purser %d.%d", place, w.lives), place: place, dir: dir, moments: &w.moments}
	if n.store = w.shared; n.store == nil {
		key, err := vault.ParseMasterKey(masterKey)
		if err == nil {
			n.bolt, err = boltstore.Open(context.Background(), boltstore.Options{
				Path: filepath.Join(dir, databaseName), MasterKey: vault.Given(key), Clock: n.now, FreeSpace: func(string) (uint64, error) { return 1 << 40, nil },
				Place: func(string) (boltstore.Place, error) { return boltstore.Place{}, nil }, // the disk's images are copies
			})
		}
		if err != nil {
			w.t.Fatalf("a purser does not open its store: %v", err)
		}
		n.store = n.bolt
	}
	o := pay.Options{
		Store: &bordered{Store: n.store, world: w, node: n}, Wallets: &signing{Wallets: signer.NewLocal(n.store), world: w, node: n},
		Facilitator: &facilitator{w, n}, Chain: w.newRPC(n, "rpc"), Clock: n.now, Logger: w.log,
		Schemes:  []string{x402.SchemeExact, x402.SchemeUpto},
		Failures: pay.FailureBounds{PerMinute: -1, PerDay: cmp.Or(w.mix.failures, -1)},
	}
	if w.mix.second {
		o.Second = w.newRPC(n, "rpc_2")
	}
	var err error
	if n.payer, err = pay.New(o); err != nil {
		w.t.Fatal(err)
	}
	if n.door, err = proxy.NewTransport(proxy.TransportOptions{
		PayOptions: proxy.PayOptions{MaxFailures: -1, SpoolDir: w.dir}, Payer: n.payer, Next: &way{w, n}, Clock: n.now, Logger: w.log,
	}); err != nil {
		w.t.Fatal(err)
	}
	b, err := books.New(books.Options{Store: o.Store, Wallets: o.Wallets, Clock: n.now})
	if err == nil {
		n.api, err = payapi.New(payapi.Options{Payer: n.payer, Books: b, Clock: n.now})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// populate makes keys with wallets, and the orders that they will ask for.
func (w *world) populate() {
	n := w.nodes[0]
	b, err := books.New(books.Options{Store: n.store, Wallets: signer.NewLocal(n.store)})
	if err != nil {
		w.t.Fatal(err)
	}
	type customer struct {
		key    pay.Key
		secret string
	}
	var customers []customer
	var first pay.Wallet
	rules := w.rules()
	for i := range w.mix.keys {
		key, secret, err := b.CreateKey(context.Background(), books.KeyRequest{Label: fmt.Sprint("agent ", i), Policy: &rules})
		var wallet pay.Wallet
		if err == nil {
			wallet, err = b.CreateWallet(context.Background(), key, "base")
		}
		if err != nil {
			w.t.Fatal(err)
		}
		w.chain.funds[*wallet.Address] = money.New(basePrice * uint64(2+w.conductor.luck.IntN(20)))
		customers = append(customers, customer{key, secret})
		w.wallets[key.ID] = wallet
		if i == 0 {
			first = wallet
		} else if w.mix.lent {
			if err := n.store.ShareWallet(context.Background(), pay.Share{WalletID: first.ID, KeyIDs: []string{key.ID}, At: time.Now()}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	luck := w.conductor.luck
	for i := range w.mix.orders {
		c := customers[luck.IntN(len(customers))]
		o := &order{number: i, key: c.key, secret: c.secret, path: fmt.Sprintf("/buy/%d", i), door: w.mix.doors[luck.IntN(len(w.mix.doors))]}
		o.posts = o.door == proxyDoor && luck.IntN(3) == 0
		o.lies = o.door == sellerDoor && luck.IntN(100) < w.mix.lies
		o.later = luck.IntN(100) < w.mix.later
		if luck.IntN(100) < w.mix.keyed && o.door != operatorDoor {
			o.idem = fmt.Sprintf("order-%d", i)
		}
		w.orders = append(w.orders, o)
	}
}

// recover has a purser look at what is due, unless it does.
func (w *world) recover(n *node) {
	if n.isDead() || !n.working.CompareAndSwap(false, true) {
		return
	}
	w.tasks.Go(func() {
		defer n.working.Store(false)
		ctx := acting(context.Background(), "recovery")
		_, _, _ = n.payer.ReconcileOnce(ctx)
		_, _ = n.payer.RecoverOnce(ctx)
	})
}

// kill ends a purser in the middle of what it does. Its disk keeps what was flushed, and of the rest any part.
func (w *world) kill(n *node) {
	var left image
	if n.bolt != nil {
		left = imageOf(w.t, n.dir)
		if calls := w.atStore(n); len(calls) > 0 && !w.conductor.chance(3) {
			if w.conductor.chance(2) {
				i := w.conductor.luck.IntN(len(calls))
				calls = calls[i : i+1]
			}
			for _, c := range calls {
				w.conductor.say("%s dies in its %s", n, c.place)
				w.conductor.letGo(c)
			}
			synctest.Wait()
			after, whole := torn(left, imageOf(w.t, n.dir), w.conductor.luck)
			w.conductor.say("the disk of %s has all of it: %t", n, whole)
			left = after
		}
	}
	w.conductor.say("%s dies", n)
	w.replace(n, left)
}

// replace ends a purser and starts one on what a disk has.
func (w *world) replace(n *node, left image) {
	n.dead.Store(true)
	w.conductor.fail(n)
	synctest.Wait()
	w.gather()
	w.bury(n)
	if n.bolt == nil {
		w.nodes[n.place] = w.start(n.place, n.dir)
		return
	}
	dir := filepath.Join(w.dir, fmt.Sprintf("life-%d", w.lives))
	if err := os.Mkdir(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	left.put(w.t, dir)
	_ = os.RemoveAll(n.dir)
	next := w.start(n.place, dir)
	next.skew.Store(n.skew.Load())
	w.nodes[n.place] = next
	w.recount(next.store)
	if left.restored {
		w.forgive(next)
	}
	w.remembers(next)
}

// atStore lists the calls of a purser that wait on their way to the store.
func (w *world) atStore(n *node) (list []*crossing) {
	for _, c := range w.conductor.ready() {
		if c.node == n && strings.HasPrefix(c.place, "store ") && !strings.HasPrefix(c.place, "store answers") {
			list = append(list, c)
		}
	}
	return list
}

// bury ends what a purser still runs.
func (w *world) bury(n *node) {
	n.dead.Store(true)
	w.conductor.fail(n)
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	err := n.payer.Close(ctx)
	if n.bolt != nil {
		err = errors.Join(err, n.bolt.Close())
	}
	if err != nil {
		w.conductor.say("%s: %v", n, err)
	}
}
