package caddymodule

// No Caddy here: it resolves options of the app.

import (
	"cmp"
	"slices"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/exposure"
	"github.com/purserpay/purser/internal/setting"
)

// RegistrationOptions say who may make keys and be the operator, and how often payments of one key may fail.
type RegistrationOptions struct {
	// Registration admits callers to POST /api-keys: open all of them, off only those with the internal
	// secret; the operator's commands make keys in any case. Default: {env.PURSER_REGISTRATION}, else open.
	Registration string `json:"registration,omitempty"`
	// AdminOverTCP, when "on", makes every program that reaches Caddy's admin endpoint over TCP an
	// operator. Default: {env.PURSER_ADMIN_OVER_TCP}, else off.
	AdminOverTCP string `json:"admin_over_tcp,omitempty"`
	// FailuresPerMinute bounds the payments of one key that end refused, void, unresolved or disputed in a
	// minute by the clock before it gets no new ones, or off. Default: {env.PURSER_FAILURES_PER_MINUTE}, else 100.
	FailuresPerMinute string `json:"failures_per_minute,omitempty"`
	// FailuresPerDay bounds them in a day (UTC), or off. Default: {env.PURSER_FAILURES_PER_DAY}, else 3000.
	FailuresPerDay string `json:"failures_per_day,omitempty"`
	// QuotesPerMinute bounds the quotes and dry runs of one key in a minute, or off. Default:
	// {env.PURSER_QUOTES_PER_MINUTE}, else 300.
	QuotesPerMinute string `json:"quotes_per_minute,omitempty"`
	// PauseHostAfter is the number of a key's payments in a row to one host that are paid and not delivered, after
	// which that host is paused for the key until a person resumes it, or off. Default: {env.PURSER_PAUSE_HOST_AFTER}, else 5.
	PauseHostAfter string `json:"pause_host_after,omitempty"`
}

// resolveRegistration reads who may make keys, and how often they may fail.
func (a *App) resolveRegistration(s *settings) error {
	open, err := setting.New("registration", "PURSER_REGISTRATION", "open").Is(a.Registration, "open")
	s.registrationClosed = !open
	return cmp.Or(
		err, setting.Set(&s.adminOverTCP, func(v string) (bool, error) {
			return setting.New("admin_over_tcp", "PURSER_ADMIN_OVER_TCP", setting.Off).Is(v, "on")
		}, a.AdminOverTCP),
		setting.Set(&s.failures.PerMinute, setting.New("failures_per_minute", "PURSER_FAILURES_PER_MINUTE", "").Most, a.FailuresPerMinute),
		setting.Set(&s.failures.PerDay, setting.New("failures_per_day", "PURSER_FAILURES_PER_DAY", "").Most, a.FailuresPerDay),
		setting.Set(&s.failures.Quotes, setting.New("quotes_per_minute", "PURSER_QUOTES_PER_MINUTE", "").Most, a.QuotesPerMinute),
		setting.Set(&s.failures.ForNothing, setting.New("pause_host_after", "PURSER_PAUSE_HOST_AFTER", "").Most, a.PauseHostAfter),
	)
}

// registersOn lists the addresses at which programs of other machines may make keys.
func (a *App) registersOn() (listen []string) {
	if a.settings.registrationClosed {
		return nil
	}
	for _, d := range a.doors {
		if _, is := d.(*API); is {
			listen = append(listen, exposure.Beyond(d.listen())...)
		}
	}
	slices.Sort(listen)
	return slices.Compact(listen)
}

// warnOfRegistration tells the operator of a purser that makes keys for other machines.
func (a *App) warnOfRegistration() {
	if listen := a.registersOn(); listen != nil {
		a.log.Warn("registration is open to everybody who reaches purser: POST /api-keys makes keys without a limit on their number. "+
			"Set PURSER_REGISTRATION=off unless that is meant", "listen", listen)
	}
}

func (a *App) registrationStatus() *adminapi.RegistrationStatus {
	return &adminapi.RegistrationStatus{Open: !a.settings.registrationClosed, Exposed: a.registersOn()}
}
