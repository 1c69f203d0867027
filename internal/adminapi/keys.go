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

const (
	defaultKeyPage = 100
	MaxKeyPage     = 500
)

// keys lists them: GET /purser/keys?after=&limit=&today=. With today=true each has what it spent
// today.
func (h *Handler) keys(w http.ResponseWriter, r *http.Request) error {
	limit, err := pageLimit(r.URL.Query(), defaultKeyPage, MaxKeyPage)
	if err != nil {
		return err
	}
	p, err := h.enter()
	if err != nil {
		return err
	}
	defer p.Leave()
	keys, err := p.Books.Keys(r.Context(), r.URL.Query().Get("after"), limit+1)
	if err != nil {
		return failure(err)
	}
	page := Keys{Keys: []Key{}}
	if len(keys) > limit {
		keys = keys[:limit]
		page.Next = keys[limit-1].ID
	}
	for _, k := range keys {
		shown := shownKey(p.Payer, k)
		if r.URL.Query().Get("today") == "true" {
			if shown, err = p.withToday(r.Context(), k, shown); err != nil {
				return err
			}
		}
		page.Keys = append(page.Keys, shown)
	}
	return writeBody(w, http.StatusOK, page)
}

// key shows one: GET /purser/keys/{id}.
func (h *Handler) key(w http.ResponseWriter, r *http.Request) error {
	p, err := h.enter()
	if err != nil {
		return err
	}
	defer p.Leave()
	k, err := p.find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	shown, err := p.shownToday(r.Context(), k)
	if err != nil {
		return err
	}
	return writeBody(w, http.StatusOK, shown)
}

// NewKey is the body of POST /purser/keys.
type NewKey struct {
	Label  string      `json:"label"`
	Policy *pay.Policy `json:"policy"`
	// Network is where the key gets a wallet. Default: the first one that is configured.
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
func (h *Handler) createKey(w http.ResponseWriter, r *http.Request) error {
	var want NewKey
	if err := readBody(w, r, &want); err != nil {
		return err
	}
	p, err := h.enter()
	if err != nil {
		return err
	}
	defer p.Leave()
	// Known before there is a key: its secret would be lost with the error.
	if want.Network, err = p.walletNetwork(want.Network); err != nil {
		return err
	}
	key, secret, err := p.Books.CreateKey(r.Context(), books.KeyRequest{Label: want.Label, Policy: want.Policy, Operator: true})
	if err != nil {
		return failure(err)
	}
	wallet, err := p.Books.CreateWallet(r.Context(), key, want.Network)
	if err != nil {
		return failure(err)
	}
	answer := CreatedKey{Key: secret, ID: key.ID, Label: key.Label, Network: wallet.Network}
	if wallet.Address != nil {
		address := wallet.Address.String()
		answer.Address = &address
	}
	return writeBody(w, http.StatusCreated, answer)
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
func (h *Handler) replacePolicy(w http.ResponseWriter, r *http.Request) error {
	var body json.RawMessage
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	return h.changePolicy(w, r, func(json.RawMessage) (json.RawMessage, error) { return body, nil })
}

// patchPolicy changes a part of it: PATCH, with a JSON merge patch (RFC 7396), and members
// that add to lists; see [listAdditions]. Reading and writing are one step, so that of two
// changes at the same time none is lost.
func (h *Handler) patchPolicy(w http.ResponseWriter, r *http.Request) error {
	var patch json.RawMessage
	if err := readBody(w, r, &patch); err != nil {
		return err
	}
	patch, add, err := cutAdditions(patch)
	if err != nil {
		return err
	}
	return h.changePolicy(w, r, func(old json.RawMessage) (json.RawMessage, error) {
		merged, err := mergePatch(old, patch)
		if err != nil || add == nil {
			return merged, err
		}
		return add.to(merged)
	})
}

func (h *Handler) changePolicy(w http.ResponseWriter, r *http.Request, change func(json.RawMessage) (json.RawMessage, error)) error {
	p, err := h.enter()
	if err != nil {
		return err
	}
	defer p.Leave()
	if err := operatorkeys.Changes.Acquire(r.Context(), 1); err != nil {
		return failure(err)
	}
	defer operatorkeys.Changes.Release(1)
	id := r.PathValue("id")
	if id == operatorkeys.ExecLabel {
		if _, _, err := p.Keys.MakeExec(r.Context()); err != nil {
			return failure(err)
		}
	}
	k, err := p.find(r.Context(), id)
	if err != nil {
		return err
	}
	old, err := json.Marshal(k.Policy)
	if err != nil {
		return err
	}
	text, err := change(old)
	if err != nil {
		return Errorf(http.StatusBadRequest, "%w", err)
	}
	pol, err := readPolicy(text)
	if err != nil {
		return err
	}
	if exec, err := p.Keys.FindExec(r.Context()); err == nil && exec.ID == k.ID {
		pol = keepOffREST(pol)
	}
	if k, err = p.Books.SetPolicy(r.Context(), k.ID, pol); err != nil {
		return failure(err)
	}
	shown, err := p.shownToday(r.Context(), k)
	if err != nil {
		return err
	}
	return writeBody(w, http.StatusOK, shown)
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
