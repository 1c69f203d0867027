package payapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/purserpay/purser/limits"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// limitList is the body of GET /v1/limits: what holds for the key at one door, and what is left.
type limitList struct {
	Door        policy.Door    `json:"door"`
	Pays        bool           `json:"pays"` // not paused, and the door is open to the key
	Limits      []limitUse     `json:"limits"`
	PerMinute   *int           `json:"perMinute,omitempty"`
	PriceGuard  *int           `json:"priceGuard,omitempty"`
	AllowHosts  []string       `json:"allowHosts,omitempty"`
	DenyHosts   []string       `json:"denyHosts,omitempty"`
	AllowPayees []x402.Address `json:"allowPayees,omitempty"`
	DenyPayees  []x402.Address `json:"denyPayees,omitempty"`
	Quota       *quotaUse      `json:"quota,omitempty"`
}

// limitUse is a limit on amounts, for people and programs: "0.50 USDC".
type limitUse struct {
	Rule   string `json:"rule"`
	Of     string `json:"of,omitempty"` // the pattern of hosts, or the task
	Limit  string `json:"limit"`
	Spent  string `json:"spent,omitempty"`
	Left   string `json:"left,omitempty"`
	Resets string `json:"resets,omitempty"`
	Since  string `json:"since,omitempty"` // of a task's total
	Ends   string `json:"ends,omitempty"`  // of a task with an end
	Parent bool   `json:"parent,omitempty"`
}

// quotaUse counts the payments of the month under the plan.
type quotaUse struct {
	Limit  json.Number `json:"limit"`
	Used   json.Number `json:"used"`
	Resets string      `json:"resets"`
}

// limits serves GET /v1/limits, for the door that ?door= names: api, proxy or transport. Default: api.
func (a *API) limits(r *http.Request, key pay.Key) (reply, error) {
	pg, err := readPage(r)
	if err != nil {
		return reply{}, err
	}
	door := policy.DoorAPI
	if asked, given, err := pg.only("door"); err != nil {
		return reply{}, err
	} else if given {
		door = policy.Door(asked)
	}
	if !slices.Contains([]policy.Door{policy.DoorAPI, policy.DoorProxy, policy.DoorTransport}, door) {
		return reply{}, badRequest("Invalid door", "api, proxy or transport")
	}
	used, err := limits.Of(r.Context(), a.payer, key, door)
	if err != nil {
		return reply{}, err
	}
	quota, err := a.payer.Quota(r.Context(), key)
	if err != nil {
		return reply{}, err
	}
	pays, err := limits.Pays(r.Context(), a.payer, key, door)
	if err != nil {
		return reply{}, err
	}
	pol := a.payer.PolicyOf(key, door)
	list := limitList{
		Door: door, Pays: pays, Limits: make([]limitUse, len(used)), PerMinute: pol.PerMinute, PriceGuard: pol.PriceGuard,
		AllowHosts: pol.AllowHosts, DenyHosts: pol.DenyHosts, AllowPayees: pol.AllowPayees, DenyPayees: pol.DenyPayees,
	}
	for i, u := range used {
		list.Limits[i] = limitUse{Rule: u.Rule, Of: u.Of, Limit: money.Text(u.Limit), Parent: u.Parent}
		if u.Left != nil {
			list.Limits[i].Spent, list.Limits[i].Left = money.Text(*u.Spent), money.Text(*u.Left)
			list.Limits[i].Resets = moment(u.Resets)
		}
		if u.Total != nil {
			list.Limits[i].Since, list.Limits[i].Ends = moment(u.Total.Begin), moment(u.Total.Until)
		}
	}
	if quota != nil {
		list.Quota = &quotaUse{
			Limit: json.Number(quota.Most.String()), Used: json.Number(quota.Used.String()), Resets: quota.Resets.Format(time.RFC3339),
		}
	}
	return reply{status: http.StatusOK, body: list}, nil
}

// moment writes a time; "" for none.
func moment(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}
