package adminapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/limits"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// Key is a key as the admin endpoint shows it. Its secret is not among it.
type Key struct {
	ID           string    `json:"id"`
	Label        string    `json:"label"`
	Organization string    `json:"organization_id"`
	Operator     bool      `json:"operator"` // the configured limits hold for it on REST too
	Created      time.Time `json:"created_at"`
	// Policy is the key's own, nil if it has none; InForce is what holds at each door now. Both have the raise
	// that holds, if there is one: InForce has its numbers already.
	Policy  *policy.Policy                `json:"policy"`
	InForce map[policy.Door]policy.Policy `json:"in_force"`
	Quota   *Quota                        `json:"quota,omitempty"` // for a single key or with today's, where a plan has one
	// Paused is there while the key makes no new payment, Revoked once it resolves nowhere.
	Paused  *Pause    `json:"paused,omitempty"`
	Revoked time.Time `json:"revoked_at,omitzero"`
	// PausedHosts lists the hosts that the key pays nothing until they are resumed.
	PausedHosts map[string]*Pause `json:"paused_hosts,omitempty"`
	// Reissued holds when the key got its present secret, if that is not its first. EarlierUntil is there
	// while the one before works: see [pay.Overlap].
	Reissued     time.Time `json:"reissued_at,omitzero"`
	EarlierUntil time.Time `json:"earlier_secret_until,omitzero"`
	// Used tells when the key was last used at each door, for a payment or not, within ten minutes.
	Used  map[policy.Door]time.Time `json:"last_used,omitempty"`
	Today *Today                    `json:"today,omitempty"` // where it was asked for, and with a single key
	// Totals lists the totals of the key's tasks, where Today is there.
	Totals []Total `json:"totals,omitempty"`
	// Parent is the id of the key whose budgets this one shares.
	Parent string `json:"parent,omitempty"`
	// ParentLabel, ParentLimits and Children are there with a single key. ParentLimits has the parent's budgets at the
	// proxy; Children has the ids and labels of keys whose parent this one is.
	ParentLabel  string     `json:"parent_label,omitempty"`
	ParentLimits []Limit    `json:"parent_limits,omitempty"`
	Children     []Relative `json:"children,omitempty"`
}

// Relative names a key of a family.
type Relative struct {
	ID      string    `json:"id"`
	Label   string    `json:"label"`
	Revoked time.Time `json:"revoked_at,omitzero"`
}

// Total is the total of a task and its use. Amounts are in the smallest unit of USDC.
type Total struct {
	Task  string    `json:"task"`
	Limit string    `json:"limit"`
	Spent string    `json:"spent"` // open payments included
	Left  string    `json:"left"`
	Begin time.Time `json:"begin"` // since when it counts
	Until time.Time `json:"until,omitzero"`
	Ended bool      `json:"ended"`
}

// Keys is a page of keys, oldest first.
type Keys struct {
	Keys []Key  `json:"keys"`
	Next string `json:"next,omitempty"`
}

// Doors lists all doors, in the order of tables.
var Doors = []policy.Door{policy.DoorProxy, policy.DoorTransport, policy.DoorAPI}

func (p *Purser) shownKey(k pay.Key) Key {
	shown := Key{
		ID: k.ID, Label: k.Label, Organization: k.OrganizationID, Operator: k.Operator, Created: k.Created, Policy: k.Policy,
		InForce: map[policy.Door]policy.Policy{}, Paused: shownPause(k.Paused), Revoked: k.RevokedAt,
		Reissued: k.Reissued, EarlierUntil: k.EarlierUntil(p.Books.Now()), Used: k.Used, Parent: k.Parent,
	}
	for host, pause := range k.PausedHosts {
		if shown.PausedHosts == nil {
			shown.PausedHosts = map[string]*Pause{}
		}
		shown.PausedHosts[host] = shownPause(&pause)
	}
	for _, d := range Doors {
		shown.InForce[d] = p.Payer.PolicyOf(k, d)
	}
	if k.Policy != nil && k.Policy.Raise != nil && shown.InForce[policy.DoorAPI].Raise == nil {
		lasting := *k.Policy
		lasting.Raise, shown.Policy = nil, &lasting
	}
	return shown
}

// keys lists them: GET /purser/keys?after=&limit=&today=. With today=true each has what it spent
// today.
func (p *Purser) keys(r *http.Request) (any, error) {
	asked := r.URL.Query()
	keys, next, err := listed(r, func(limit int) ([]pay.Key, error) {
		return p.Books.Keys(r.Context(), asked.Get("after"), limit)
	}, func(k pay.Key) string { return k.ID }, func(k pay.Key) (Key, error) {
		if asked.Get("today") == "true" {
			return p.shownToday(r.Context(), k)
		}
		return p.shownKey(k), nil
	})
	return Keys{keys, next}, err
}

func (p *Purser) key(r *http.Request) (any, error) {
	k, err := p.find(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return p.shownWhole(r.Context(), k)
}

// shownWhole returns a single key with its family.
func (p *Purser) shownWhole(ctx context.Context, k pay.Key) (Key, error) {
	shown, err := p.shownToday(ctx, k)
	if err != nil {
		return shown, err
	}
	if k.Parent != "" {
		parent, err := p.Books.Key(ctx, k.Parent)
		if err != nil {
			return shown, err
		}
		used, err := limits.OfParent(ctx, p.Payer, k, policy.DoorProxy)
		if err != nil {
			return shown, err
		}
		shown.ParentLabel = parent.Label
		for _, u := range used {
			shown.ParentLimits = append(shown.ParentLimits, shownLimit(u))
		}
	}
	children, err := p.Books.Children(ctx, k)
	for _, c := range children {
		shown.Children = append(shown.Children, Relative{c.ID, c.Label, c.RevokedAt})
	}
	return shown, err
}

// Today tells how much of a key's daily budget is used on the present day (UTC).
type Today struct {
	// Spent is in the smallest unit of USDC; negative when more of an earlier day was taken back.
	Spent string `json:"spent"`
	// Left remains of the proxy's daily budget after all reservations; nil without a budget.
	Left *string `json:"left"`
}

// Quota tells how many payments a plan leaves a key this month (UTC). The keys of an
// organization share theirs.
type Quota struct {
	Used   string    `json:"used"`
	Most   string    `json:"most"`
	Resets time.Time `json:"resets_at"`
}

// shownToday returns a shown key with what it did today, and its quota.
func (p *Purser) shownToday(ctx context.Context, k pay.Key) (Key, error) {
	shown := p.shownKey(k)
	today, err := limits.TodayOf(ctx, p.Payer, k, policy.DoorProxy, p.Networks[0].Assets[0].Symbol)
	if err != nil {
		return shown, err
	}
	net, negative := today.Spent.Net()
	shown.Today = &Today{Spent: net.String()}
	if negative {
		shown.Today.Spent = "-" + shown.Today.Spent
	}
	if today.Left != nil {
		shown.Today.Left = new(today.Left.String())
	}
	totals, err := limits.Totals(ctx, p.Payer, k)
	if err != nil {
		return shown, err
	}
	for _, u := range totals {
		shown.Totals = append(shown.Totals, Total{
			Task: u.Of, Limit: u.Limit.String(), Spent: u.Spent.String(), Left: u.Left.String(),
			Begin: u.Total.Begin, Until: u.Total.Until, Ended: u.Total.Ended(p.Books.Now()),
		})
	}
	quota, err := p.Payer.Quota(ctx, k)
	if quota != nil {
		shown.Quota = &Quota{Used: quota.Used.String(), Most: quota.Most.String(), Resets: quota.Resets}
	}
	return shown, err
}

// NewKey is the body of POST /purser/keys.
type NewKey struct {
	Label   string         `json:"label"`
	Policy  *policy.Policy `json:"policy"`
	Network string         `json:"network"` // of its wallet; default: the first one that is configured
	// Wallet names the wallet that the key draws from, by id or address, or is "new" for one of its
	// own. Default: the deployment's.
	Wallet string `json:"wallet"`
	// Parent names the key whose budgets this one shares, by id or label. The key then draws from the wallets of its
	// parent, unless Wallet says another one.
	Parent string `json:"parent"`
	// Exec: the key is made in the place of an exec key that was revoked. It takes nothing else.
	Exec bool `json:"exec"`
}

// CreatedKey is its answer. The secret is not told again.
type CreatedKey struct {
	Key     string  `json:"key"`
	ID      string  `json:"id"`
	Label   string  `json:"label"`
	Network string  `json:"network"`
	Address *string `json:"address"` // of the wallet that it draws from
	Wallet  string  `json:"wallet"`  // its id
	Lent    bool    `json:"lent"`    // another key owns the wallet
}

// NewWalletOfItsOwn, in the place of a wallet's name, asks for a new wallet that the key owns.
const NewWalletOfItsOwn = "new"

func (p *Purser) createKey(r *http.Request, want NewKey) (any, error) {
	if want.Exec {
		return p.createExec(r, want)
	}
	// Known before there is a key: its secret would be lost with the error.
	var lent pay.Wallet
	if want.Wallet != "" && want.Wallet != NewWalletOfItsOwn {
		var err error
		if lent, err = p.findLiveWallet(r.Context(), want.Wallet); err != nil {
			return nil, err
		}
		if want.Network != "" && want.Network != lent.Network {
			return nil, Errorf(http.StatusBadRequest, "network: the wallet %s is on %s", lent.ID, lent.Network)
		}
		want.Network = lent.Network
	}
	network, err := p.walletNetwork(want.Network)
	if err != nil {
		return nil, err
	}
	ask := books.KeyRequest{Label: want.Label, Policy: want.Policy, Operator: true}
	var family []pay.Wallet
	if want.Parent != "" {
		parent, err := p.find(r.Context(), want.Parent)
		if err != nil {
			return nil, err
		}
		ask.Parent, ask.Operator, ask.OrganizationID = parent.ID, parent.Operator, parent.OrganizationID
		if want.Wallet == "" {
			if family, lent, err = p.familyWallets(r.Context(), parent, want.Network); err != nil {
				return nil, err
			}
		}
	}
	key, secret, err := p.Books.CreateKey(r.Context(), ask)
	if err != nil {
		return nil, err
	}
	wallet := lent
	switch {
	case len(family) > 0:
		for _, w := range slices.Backward(family) { // the one that is lent last pays
			if err == nil {
				err = p.Books.ShareWallet(r.Context(), w.ID, key.ID)
			}
		}
	case lent.ID != "":
		err = p.Books.ShareWallet(r.Context(), lent.ID, key.ID)
	case want.Wallet == NewWalletOfItsOwn:
		wallet, err = p.Keys.OwnWallet(r.Context(), key, network)
	default:
		wallet, err = p.Keys.Wallet(r.Context(), key, network)
	}
	if err != nil {
		return nil, err
	}
	return created{createdKey(books.Access{Key: key, Secret: secret, Wallet: wallet})}, nil
}

// familyWallets lists the wallets that a parent draws from, and returns the first one on a network; "": on any.
func (p *Purser) familyWallets(ctx context.Context, parent pay.Key, network string) (list []pay.Wallet, first pay.Wallet, err error) {
	list, err = p.Books.ListWallets(ctx, parent)
	if len(list) == 0 || err != nil {
		return nil, first, err
	}
	on := slices.IndexFunc(list, func(w pay.Wallet) bool { return network == "" || w.Network == network })
	if on < 0 {
		return nil, first, Errorf(http.StatusBadRequest, "network: the parent draws from no wallet on %.64q", network)
	}
	return list, list[on], nil
}

func (p *Purser) createExec(r *http.Request, want NewKey) (any, error) {
	if want != (NewKey{Exec: true}) {
		return nil, Errorf(http.StatusBadRequest, "exec: the key takes no label, wallet or limits here; 'purser limits exec' sets limits")
	}
	made, err := p.Keys.ReplaceExec(r.Context())
	if errors.Is(err, pay.ErrKeyExists) {
		return nil, Errorf(http.StatusConflict, "there is an exec key that is not revoked: 'purser keys reissue exec' gives it another secret")
	}
	if err != nil {
		return nil, err
	}
	return created{createdKey(made)}, nil
}

func createdKey(a books.Access) CreatedKey {
	answer := CreatedKey{
		Key: a.Secret, ID: a.Key.ID, Label: a.Key.Label, Network: a.Wallet.Network, Wallet: a.Wallet.ID, Lent: a.Wallet.KeyID != a.Key.ID,
	}
	if a.Wallet.Address != nil {
		answer.Address = new(a.Wallet.Address.String())
	}
	return answer
}

// walletNetwork is the network of a new wallet: the first configured one unless another is asked for.
func (p *Purser) walletNetwork(asked string) (string, error) {
	if asked == "" {
		asked = p.Networks[0].Name
	}
	if !slices.ContainsFunc(p.Networks, func(n x402.Network) bool { return n.Name == asked }) {
		return "", Errorf(http.StatusBadRequest, "network: %.64q is not one that this purser pays on", asked)
	}
	return asked, p.Books.CanHold(asked)
}
