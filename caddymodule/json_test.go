package caddymodule

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// validateJSON does what `purser validate` does with JSON.
func validateJSON(text string) error {
	var c caddy.Config
	if err := caddy.StrictUnmarshalJSON([]byte(text), &c); err != nil {
		return err
	}
	return caddy.Validate(&c)
}

// inJSON is a configuration with options of the app and handlers of a site.
func inJSON(app, handlers string) string {
	return `{"admin":{"disabled":true,"config":{"persist":false}},"apps":{"purser":{` + app + `},"http":{"servers":{"a":{"listen":["127.0.0.1:1"],
		"listener_wrappers":[{"wrapper":"purser","max_connections":10,"max_peer_connections":false}],"routes":[{"handle":[` + handlers + `]}]}}}}}`
}

// Numbers, true and false, and arrays are the texts that a Caddyfile has. Texts with placeholders stay texts.
func TestOptionsInJSON(t *testing.T) {
	t.Setenv("PURSER_TEST_LIMIT", "0.5")
	proxy := `{"handler":"purser_proxy","allow_hosts":["a.example","b.example"],"deny_hosts":"c.example","report_only":true,"via":false,
		"ports":[80,443],"max_replay":1048576,"max_spool":false,"dial_timeout":"5s","intercept":false,"max_tunnels":10,"max_failures":false,
		"challenge_header":"X-A","resolve":{"a.example":"127.0.0.1"}}`
	transport := `{"handler":"reverse_proxy","upstreams":[{"dial":"127.0.0.1:2"}],"transport":{"protocol":"purser","task":7,"max_failures":3,"max_spool":1000,
		"allow_http":["a.example"],"challenge_header":["X-A"],"http":{"dial_timeout":"5s","compression":false}}}`
	good := map[string][2]string{
		"numbers": {`"max_payment":0.25,"daily_budget":10,"monthly_budget":1e2,"per_minute":60,"price_guard":3,"failures_per_day":100,
			"host":{"a.example":{"max_payment":1e-05}},"task":{"*":{"daily_budget":2}},"plan":{"free":{"keys":7,"price":19.50}}`, ""},
		"true and false": {`"registration":false,"admin_over_tcp":true,"plans":false,"price_guard":false,"require_approval_new_hosts":true,
			"standin":false,"approval_wait":false,"retain":false`, ""},
		"arrays":             {`"networks":["base","base-sepolia"],"schemes":["exact"],"allow_hosts":["a.example","{env.PURSER_TEST_LIMIT}.example"]`, ""},
		"durations":          {`"answer_timeout":"5m","retain":"100d","approval_wait":"90s"`, ""},
		"references":         {`"max_payment":"{env.PURSER_TEST_LIMIT}","daily_budget":"1{env.PURSER_TEST_LIMIT}"`, ""},
		"a store":            {`"store":{"module":"bolt","path":"/tmp/x","min_free":1000000}`, ""},
		"a facilitator":      {`"facilitator":{"module":"http","url":"http://127.0.0.1:1","timeout":"5s","max_failures":false}`, ""},
		"the proxy":          {"", proxy},
		"the transport":      {"", transport},
		"the sidecar":        {"", `{"handler":"purser_upstream","to":"http://127.0.0.1:2","transport":{"task":7,"max_replay":1000}}`},
		"the API":            {"", `{"handler":"purser_api","key_rate":7}`},
		"the API, unbounded": {"", `{"handler":"purser_api","key_rate":false}`},
		"the API, as before": {"", `{"handler":"purser_api","key_rate":-1}`},
	}
	for what, c := range good {
		app, handler := c[0], c[1]
		if handler == "" {
			handler = `{"handler":"purser_api"}`
		}
		if err := validateJSON(inJSON(app, handler)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for want, c := range map[string][2]string{
		`"max_paymnt": unknown field`:                                       {`"max_paymnt":1`, ""},
		`"Max_Payment": unknown field`:                                      {`"Max_Payment":1`, ""},
		`"host": "a.example": "most": unknown field`:                        {`"host":{"a.example":{"most":1}}`, ""},
		`"allow_hosts": the list is empty`:                                  {`"allow_hosts":[]`, ""},
		`"max_payment": {} is neither a text nor a number`:                  {`"max_payment":{}`, ""},
		`"max_payment": is given twice`:                                     {`"max_payment":1,"max_payment":2`, ""},
		`max_payment (PURSER_MAX_PAYMENT): "on" is not an amount`:           {`"max_payment":true`, ""},
		`answer_timeout (PURSER_ANSWER_TIMEOUT): "300" has no unit`:         {`"answer_timeout":300`, ""},
		`approval_wait (PURSER_APPROVAL_WAIT): "60000000000" has no unit`:   {`"approval_wait":60000000000`, ""},
		`registration (PURSER_REGISTRATION): "on" is neither open nor off`:  {`"registration":true`, ""},
		`write a reference like {env.PURSER_KEY}`:                           {`"key":12345678`, ""},
		`"challenge_headers": unknown field`:                                {"", `{"handler":"purser_proxy","challenge_headers":["X-A"]}`},
		`"allow_hosts": the list is empty; leave the option out`:            {"", `{"handler":"purser_proxy","allow_hosts":[]}`},
		`"http": json: unknown field "no_such"`:                             {"", `{"handler":"reverse_proxy","transport":{"protocol":"purser","http":{"no_such":1}}}`},
		`"transport": "no_such": unknown field`:                             {"", `{"handler":"purser_upstream","transport":{"no_such":1}}`},
		`"min_fre": unknown field`:                                          {`"store":{"module":"bolt","min_fre":1}`, ""},
		`facilitator http timeout (PURSER_FACILITATOR_TIMEOUT): "5" has no`: {`"facilitator":{"module":"http","timeout":5}`, ""},
	} {
		handler := c[1]
		if handler == "" {
			handler = `{"handler":"purser_api"}`
		}
		if err := validateJSON(inJSON(c[0], handler)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
