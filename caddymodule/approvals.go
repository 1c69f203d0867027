package caddymodule

// No Caddy here: it resolves options of the app.

import (
	"cmp"

	"github.com/purserpay/purser/internal/setting"
)

// ApprovalOptions say which payments a person must approve first, and how long there is time for that.
type ApprovalOptions struct {
	// RequireApprovalAbove holds a payment above this amount in USDC until a person approves it, or off. A
	// key's own limit comes first. Default: {env.PURSER_REQUIRE_APPROVAL_ABOVE}, else off.
	RequireApprovalAbove string `json:"require_approval_above,omitempty"`
	// RequireApprovalNewHosts, when true, holds the first payment of a key to a host until a person approves it;
	// when false, none. Default: {env.PURSER_REQUIRE_APPROVAL_NEW_HOSTS}, else that to suspicious hosts.
	RequireApprovalNewHosts string `json:"require_approval_new_hosts,omitempty"`
	// ApprovalWait is the time that a request waits for the answer, such as 60s, or off: it does not wait.
	// Default: {env.PURSER_APPROVAL_WAIT}, else 4s, which is less than the time-outs of usual clients.
	ApprovalWait string `json:"approval_wait,omitempty"`
	// ApprovalExpiry is the time after which an approval allows nothing any more. Default:
	// {env.PURSER_APPROVAL_EXPIRY}, else 1h.
	ApprovalExpiry string `json:"approval_expiry,omitempty"`
}

// resolve reads when people are asked. It comes after the other limits.
func (o ApprovalOptions) resolve(s *settings) error {
	return cmp.Or(
		setting.Set(&s.policy.RequireApprovalAbove, setting.New("require_approval_above", "PURSER_REQUIRE_APPROVAL_ABOVE", "").Cap, o.RequireApprovalAbove),
		setting.Set(&s.policy.RequireApprovalNewHosts, setting.New("require_approval_new_hosts", "PURSER_REQUIRE_APPROVAL_NEW_HOSTS", "").Yes, o.RequireApprovalNewHosts),
		setting.Set(&s.approvalWait, setting.New("approval_wait", "PURSER_APPROVAL_WAIT", "4s").Wait, o.ApprovalWait),
		setting.Set(&s.approvalExpiry, setting.New("approval_expiry", "PURSER_APPROVAL_EXPIRY", "1h").Duration, o.ApprovalExpiry),
	)
}

// stopWaiting ends the waits for approvals. They go on after a reload, unless no configuration has this store any more.
func (a *App) stopWaiting() {
	if run := a.live.Load(); run != nil && run.tenant.payer != nil {
		run.tenant.payer.StopWaiting()
	}
}
