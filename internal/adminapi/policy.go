package adminapi

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// listAdditions adds to lists of a policy, which a merge patch can only replace: of two operators who
// deny a host each, both get their way.
type listAdditions struct {
	AllowHosts  []string       `json:"add_allow_hosts"`
	DenyHosts   []string       `json:"add_deny_hosts"`
	AllowPayees []x402.Address `json:"add_allow_payees"`
	DenyPayees  []x402.Address `json:"add_deny_payees"`
}

// additionNames are the members of a patch that add to a list.
var additionNames = []string{"add_allow_hosts", "add_deny_hosts", "add_allow_payees", "add_deny_payees"}

// cutAdditions takes the additions out of a patch. What is left is a merge patch.
func cutAdditions(patch json.RawMessage) (rest json.RawMessage, add *listAdditions, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(patch, &members); err != nil || members == nil {
		return patch, nil, nil //nolint:nilerr // what is no object adds nothing
	}
	additions := map[string]json.RawMessage{}
	for _, name := range additionNames {
		if value, there := members[name]; there {
			var entries []json.RawMessage
			if json.Unmarshal(value, &entries) != nil || len(entries) == 0 {
				return nil, nil, Errorf(http.StatusBadRequest, "%s: not a list with an entry", name)
			}
			additions[name] = value
			delete(members, name)
		}
	}
	if len(additions) == 0 {
		return patch, nil, nil
	}
	text, err := json.Marshal(additions)
	if err != nil {
		return nil, nil, err
	}
	add = new(listAdditions)
	if err := strictjson.Decode(text, add, openFields...); err != nil {
		return nil, nil, Errorf(http.StatusBadRequest, "policy: %w", err)
	}
	rest, err = json.Marshal(members)
	return rest, add, err
}

// to adds to the lists of a policy. Only a list that is there allows more by an addition: all
// others would have been allowed before, and none but the new ones then.
func (a *listAdditions) to(text json.RawMessage) (json.RawMessage, error) {
	pol, err := readPolicy(text)
	if err != nil {
		return nil, err
	}
	if pol == nil {
		pol = new(pay.Policy)
	}
	const noList = "%s: the key has no such list of its own to add to; %s makes one"
	if len(a.AllowHosts) > 0 && len(pol.AllowHosts) == 0 {
		return nil, Errorf(http.StatusBadRequest, noList, "add_allow_hosts", "allow_hosts")
	}
	if len(a.AllowPayees) > 0 && len(pol.AllowPayees) == 0 {
		return nil, Errorf(http.StatusBadRequest, noList, "add_allow_payees", "allow_payees")
	}
	pol.AllowHosts, pol.DenyHosts = united(pol.AllowHosts, a.AllowHosts), united(pol.DenyHosts, a.DenyHosts)
	pol.AllowPayees, pol.DenyPayees = united(pol.AllowPayees, a.AllowPayees), united(pol.DenyPayees, a.DenyPayees)
	return json.Marshal(pol)
}

// united is a list with more behind it, and nothing twice.
func united[T comparable](list, more []T) []T {
	for _, entry := range more {
		if !slices.Contains(list, entry) {
			list = append(list, entry)
		}
	}
	return list
}
