package adminapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/operatorkeys"
	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Key is a key as the admin endpoint shows it. Its secret is not among it.
type Key struct {
	ID           string `json:"id"`
	Label        string `json:"label"`
	Organization string `json:"organization_id"`
	// Operator tells that the configured limits hold for the key on REST too.
	Operator bool      `json:"operator"`
	Created  time.Time `json:"created_at"`
	// Policy is the key's own, nil if it has none; InForce is what holds at each door.
	Policy  *pay.Policy             `json:"policy"`
	InForce map[pay.Door]pay.Policy `json:"in_force"`
	// Quota is there where a plan bounds the key's payments, and with a single key or today's.
	Quota *Quota `json:"quota,omitempty"`
	// Paused is there while the key makes no new payment, Revoked once it resolves nowhere.
	Paused  *Pause    `json:"paused,omitempty"`
	Revoked time.Time `json:"revoked_at,omitzero"`
	// Today is there where it was asked for, and with a single key.
	Today *Today `json:"today,omitempty"`
}

// Keys is a page of keys, oldest first. Next is what after must be for the next page;
// empty on the last.
type Keys struct {
	Keys []Key  `json:"keys"`
	Next string `json:"next,omitempty"`
}

// Doors lists all doors, in the order of tables.
var Doors = []pay.Door{pay.DoorProxy, pay.DoorTransport, pay.DoorAPI}

func shownKey(p *pay.Payer, k pay.Key) Key {
	shown := Key{
		ID: k.ID, Label: k.Label, Organization: k.OrganizationID, Operator: k.Operator, Created: k.Created, Policy: k.Policy,
		InForce: map[pay.Door]pay.Policy{}, Paused: shownPause(k.Paused), Revoked: k.RevokedAt,
	}
	for _, d := range Doors {
		shown.InForce[d] = p.PolicyOf(k, d)
	}
	return shown
}

// Rows of a page: unless a request says, and at most.
const (
	defaultKeyPage = 100
	MaxKeyPage     = 500
)

// keys lists them: GET /purser/keys?after=&limit=&today=. With today=true each has what it spent
// today.
func (p *Purser) keys(r *http.Request) (any, error) {
	limit, err := pageLimit(r.URL.Query(), defaultKeyPage, MaxKeyPage)
	if err != nil {
		return nil, err
	}
	keys, err := p.Books.Keys(r.Context(), r.URL.Query().Get("after"), limit+1)
	if err != nil {
		return nil, err
	}
	page := Keys{Keys: []Key{}}
	keys, page.Next = cutPage(keys, limit, func(k pay.Key) string { return k.ID })
	for _, k := range keys {
		shown := shownKey(p.Payer, k)
		if r.URL.Query().Get("today") == "true" {
			if shown, err = p.withToday(r.Context(), k, shown); err != nil {
				return nil, err
			}
		}
		page.Keys = append(page.Keys, shown)
	}
	return page, nil
}

// key shows one: GET /purser/keys/{id}.
func (p *Purser) key(r *http.Request) (any, error) {
	k, err := p.find(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return p.shownToday(r.Context(), k)
}

// NewKey is the body of POST /purser/keys.
type NewKey struct {
	Label  string      `json:"label"`
	Policy *pay.Policy `json:"policy"`
	// Network of the key's wallet. Default: the first one that is configured.
	Network string `json:"network"`
}

// CreatedKey is its answer. The secret is not told again.
type CreatedKey struct {
	Key     string  `json:"key"`
	ID      string  `json:"id"`
	Label   string  `json:"label"`
	Network string  `json:"network"`
	Address *string `json:"address"`
}

// createKey makes a key with a wallet.
func (p *Purser) createKey(r *http.Request, want NewKey) (any, error) {
	// Known before there is a key: its secret would be lost with the error.
	network, err := p.walletNetwork(want.Network)
	if err != nil {
		return nil, err
	}
	key, secret, err := p.Books.CreateKey(r.Context(), books.KeyRequest{Label: want.Label, Policy: want.Policy, Operator: true})
	if err != nil {
		return nil, err
	}
	wallet, err := p.Books.CreateWallet(r.Context(), key, network)
	if err != nil {
		return nil, err
	}
	answer := CreatedKey{Key: secret, ID: key.ID, Label: key.Label, Network: wallet.Network}
	if wallet.Address != nil {
		address := wallet.Address.String()
		answer.Address = &address
	}
	return created{answer}, nil
}

// walletNetwork is the network that a new wallet is for: the first configured one unless
// another is asked for, which must be one of them.
func (p *Purser) walletNetwork(asked string) (string, error) {
	if asked == "" {
		return p.Networks[0].Name, nil
	}
	if !slices.ContainsFunc(p.Networks, func(n x402.Network) bool { return n.Name == asked }) {
		return "", Errorf(http.StatusBadRequest, "network: %.64q is not one that this purser pays on", asked)
	}
	return asked, nil
}

// replacePolicy sets the whole policy of a key: PUT /purser/keys/{id}/policy. null takes
// it away, so that the defaults hold again.
func (p *Purser) replacePolicy(r *http.Request, body json.RawMessage) (any, error) {
	return p.changePolicy(r, func(json.RawMessage) (json.RawMessage, error) { return body, nil })
}

// patchPolicy changes a part of it: PATCH, with a JSON merge patch (RFC 7396), and members
// that add to lists; see [listAdditions]. Reading and writing are one step, so that of two
// changes at the same time none is lost.
func (p *Purser) patchPolicy(r *http.Request, patch json.RawMessage) (any, error) {
	patch, add, err := cutAdditions(patch)
	if err != nil {
		return nil, err
	}
	return p.changePolicy(r, func(old json.RawMessage) (json.RawMessage, error) {
		merged, err := mergePatch(old, patch)
		if err != nil || add == nil {
			return merged, err
		}
		return add.to(merged)
	})
}

func (p *Purser) changePolicy(r *http.Request, change func(json.RawMessage) (json.RawMessage, error)) (any, error) {
	if err := operatorkeys.Changes.Acquire(r.Context(), 1); err != nil {
		return nil, err
	}
	defer operatorkeys.Changes.Release(1)
	id := r.PathValue("id")
	if id == operatorkeys.ExecLabel {
		if _, _, err := p.Keys.MakeExec(r.Context()); err != nil {
			return nil, err
		}
	}
	k, err := p.find(r.Context(), id)
	if err != nil {
		return nil, err
	}
	old, err := json.Marshal(k.Policy)
	if err != nil {
		return nil, err
	}
	text, err := change(old)
	if err != nil {
		return nil, Errorf(http.StatusBadRequest, "%w", err)
	}
	pol, err := readPolicy(text)
	if err != nil {
		return nil, err
	}
	if exec, err := p.Keys.FindExec(r.Context()); err == nil && exec.ID == k.ID {
		pol = keepOffREST(pol)
	}
	if k, err = p.Books.SetPolicy(r.Context(), k.ID, pol); err != nil {
		return nil, err
	}
	return p.shownToday(r.Context(), k)
}

// keepOffREST restricts a policy for the exec key to the proxy unless it names doors: see
// [operatorkeys.ExecPolicy].
func keepOffREST(pol *pay.Policy) *pay.Policy {
	if pol == nil {
		return operatorkeys.ExecPolicy()
	}
	if len(pol.Doors) == 0 {
		pol.Doors = operatorkeys.ExecPolicy().Doors
	}
	return pol
}

// readPolicy reads a policy; nil for null.
func readPolicy(text json.RawMessage) (*pay.Policy, error) {
	var pol *pay.Policy
	if err := strictjson.Decode(text, &pol, openFields...); err != nil {
		return nil, Errorf(http.StatusBadRequest, "policy: %w", err)
	}
	return pol, nil
}

// mergePatch applies a JSON merge patch (RFC 7396): members of an object replace those of
// the same name, null removes them, and objects in objects are merged likewise.
func mergePatch(target, patch json.RawMessage) (json.RawMessage, error) {
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(patch, &changes); err != nil || changes == nil {
		return patch, nil //nolint:nilerr // what is no object replaces the target
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(target, &members); err != nil || members == nil {
		members = map[string]json.RawMessage{}
	}
	for name, change := range changes {
		if string(bytes.TrimSpace(change)) == "null" {
			delete(members, name)
			continue
		}
		merged, err := mergePatch(members[name], change)
		if err != nil {
			return nil, err
		}
		members[name] = merged
	}
	return json.Marshal(members)
}
