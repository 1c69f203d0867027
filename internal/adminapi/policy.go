package adminapi

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// replacePolicy sets the whole policy of a key: PUT /purser/keys/{id}/policy. null takes
// it away, so that the defaults hold again.
func (p *Purser) replacePolicy(r *http.Request, body json.RawMessage) (any, error) {
	return p.changePolicy(r, func(json.RawMessage) (*policy.Policy, error) { return readPolicy(body) })
}

// patchPolicy changes a part of it: PATCH, with a JSON merge patch (RFC 7396), and members
// that add to lists or raise limits for a while; see [listAdditions] and [Raise]. Reading and writing are one step, so that of two
// changes at the same time none is lost.
func (p *Purser) patchPolicy(r *http.Request, patch json.RawMessage) (any, error) {
	patch, add, err := cutAdditions(patch)
	if err != nil {
		return nil, err
	}
	patch, begins, err := begunRaise(patch, p.Payer.Options().Clock())
	if err != nil {
		return nil, err
	}
	return p.changePolicy(r, func(old json.RawMessage) (*policy.Policy, error) {
		if begins {
			old = mergePatch(old, json.RawMessage(`{"raise":null}`))
		}
		pol, err := readPolicy(mergePatch(old, patch))
		if err != nil || add == nil {
			return pol, err
		}
		return add.to(cmp.Or(pol, new(policy.Policy)))
	})
}

func (p *Purser) changePolicy(r *http.Request, change func(old json.RawMessage) (*policy.Policy, error)) (any, error) {
	if err := books.Changes.Acquire(r.Context(), 1); err != nil {
		return nil, err
	}
	defer books.Changes.Release(1)
	id := r.PathValue("id")
	if id == books.ExecLabel {
		if _, err := p.Keys.MakeExec(r.Context()); err != nil {
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
	pol, err := change(old)
	if err == nil {
		pol, err = withoutEnded(k.Policy, pol, p.Payer.Options().Clock())
	}
	if err != nil {
		return nil, err
	}
	if exec, err := p.Keys.FindExec(r.Context()); err == nil && exec.ID == k.ID {
		// Off REST, unless it names doors: see [books.ExecPolicy].
		if pol = cmp.Or(pol, new(policy.Policy)); len(pol.Doors) == 0 {
			pol.Doors = books.ExecPolicy().Doors
		}
	}
	if k, err = p.Books.SetPolicy(r.Context(), k.ID, pol); err != nil {
		return nil, err
	}
	return p.shownWhole(r.Context(), k)
}

// readPolicy reads a policy; nil for null.
func readPolicy(text json.RawMessage) (*policy.Policy, error) {
	var pol *policy.Policy
	if err := strictjson.Decode(text, &pol, openFields...); err != nil {
		return nil, Errorf(http.StatusBadRequest, "policy: %w", err)
	}
	return pol, nil
}

// mergePatch applies a JSON merge patch (RFC 7396): members of an object replace those of
// the same name, null removes them, and objects in objects are merged likewise.
func mergePatch(target, patch json.RawMessage) json.RawMessage {
	var changes, members map[string]json.RawMessage
	if json.Unmarshal(patch, &changes) != nil || changes == nil {
		return patch // what is no object replaces the target
	}
	if json.Unmarshal(target, &members) != nil || members == nil {
		members = map[string]json.RawMessage{}
	}
	for name, change := range changes {
		if members[name] = mergePatch(members[name], change); string(change) == "null" {
			delete(members, name)
		}
	}
	text, _ := json.Marshal(members) // of JSON that was read
	return text
}

// listAdditions adds to lists of a policy, which a merge patch can only replace: of two operators who
// deny a host each, both get their way.
type listAdditions struct {
	AllowHosts  []string       `json:"add_allow_hosts"`
	DenyHosts   []string       `json:"add_deny_hosts"`
	AllowPayees []x402.Address `json:"add_allow_payees"`
	DenyPayees  []x402.Address `json:"add_deny_payees"`
}

var additionNames = []string{"add_allow_hosts", "add_deny_hosts", "add_allow_payees", "add_deny_payees"}

// cutAdditions takes the additions out of a patch. The rest is a merge patch.
func cutAdditions(patch json.RawMessage) (rest json.RawMessage, add *listAdditions, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(patch, &members); err != nil || members == nil {
		return patch, nil, nil //nolint:nilerr // what is no object adds nothing
	}
	for _, name := range additionNames {
		if value, there := members[name]; there {
			var entries []json.RawMessage
			if json.Unmarshal(value, &entries) != nil || len(entries) == 0 {
				return nil, nil, Errorf(http.StatusBadRequest, "%s: not a list with an entry", name)
			}
			add = new(listAdditions)
			delete(members, name)
		}
	}
	if add == nil {
		return patch, nil, nil
	}
	if err := json.Unmarshal(patch, add); err != nil {
		return nil, nil, Errorf(http.StatusBadRequest, "policy: %w", err)
	}
	rest, err = json.Marshal(members)
	return rest, add, err
}

// to adds to the lists of a policy. Only a list that is there allows more by an addition: all
// others would have been allowed before, and none but the new ones then.
func (a *listAdditions) to(pol *policy.Policy) (*policy.Policy, error) {
	const noList = "%s: the key has no such list of its own to add to; %s makes one"
	if len(a.AllowHosts) > 0 && len(pol.AllowHosts) == 0 {
		return nil, Errorf(http.StatusBadRequest, noList, "add_allow_hosts", "allow_hosts (--allow-host)")
	}
	if len(a.AllowPayees) > 0 && len(pol.AllowPayees) == 0 {
		return nil, Errorf(http.StatusBadRequest, noList, "add_allow_payees", "allow_payees (--allow-payee)")
	}
	pol.AllowHosts, pol.DenyHosts = united(pol.AllowHosts, a.AllowHosts), united(pol.DenyHosts, a.DenyHosts)
	pol.AllowPayees, pol.DenyPayees = united(pol.AllowPayees, a.AllowPayees), united(pol.DenyPayees, a.DenyPayees)
	return pol, nil
}

func united[T comparable](list, more []T) []T {
	for _, entry := range more {
		if !slices.Contains(list, entry) {
			list = append(list, entry)
		}
	}
	return list
}
