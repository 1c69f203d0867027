package caddymodule

// No Caddy here: it resolves options of the app.

import (
	"cmp"
	"time"
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
		set(&s.policy.RequireApprovalAbove, option{"require_approval_above", "PURSER_REQUIRE_APPROVAL_ABOVE", ""}.cap, o.RequireApprovalAbove),
		set(&s.policy.RequireApprovalNewHosts, option{"require_approval_new_hosts", "PURSER_REQUIRE_APPROVAL_NEW_HOSTS", ""}.yes, o.RequireApprovalNewHosts),
		set(&s.approvalWait, option{"approval_wait", "PURSER_APPROVAL_WAIT", "4s"}.wait, o.ApprovalWait),
		set(&s.approvalExpiry, option{"approval_expiry", "PURSER_APPROVAL_EXPIRY", "1h"}.duration, o.ApprovalExpiry),
	)
}

// yes is an option that is true or on, or false or off; nil if it is not set.
func (o option) yes(given string) (*bool, error) {
	v, err := o.value(given)
	switch {
	case err != nil || v == "":
		return nil, err
	case v == "true" || v == "on":
		return new(true), nil
	case v == "false" || v == off:
		return new(false), nil
	}
	return nil, o.errorf("%q is neither true nor false", v)
}

// wait is an option that is a duration, or 0 or off, which are none.
func (o option) wait(given string) (time.Duration, error) {
	v, err := o.value(given)
	if err != nil || v == off || v == "0" {
		return 0, err
	}
	d, err := o.parseDuration(v)
	if err == nil && d < 0 {
		err = o.errorf("%q is neither a duration such as 60s nor off", v)
	}
	return d, err
}

// stopWaiting ends the waits for approvals. They go on after a reload, unless no configuration has this store any more.
func (a *App) stopWaiting() {
	if run := a.live.Load(); run != nil && run.tenant.payer != nil {
		run.tenant.payer.StopWaiting()
	}
}
