package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/purserpay/purser"
	"github.com/purserpay/purser/internal/adminapi"
)

func TestExecKeepsPursersVariables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		environ []string
		anyCase bool
		want    string
	}{
		{
			"all of purser's", []string{
				"PURSER_MASTER_KEY=x", "PURSER_KEY_FILE=x", "CDP_API_KEY_ID=x", "CDP_API_KEY_SECRET=x", "CDP_API_KEY_SECRET_FILE=x",
				"CDP_WALLET_SECRET=x", "CDP_WALLET_SECRET_FILE=x", "PATH=/bin", "A=PURSER_KEY",
			}, false, "[PATH=/bin A=PURSER_KEY]",
		},
		{
			"a database, whatever the store is", []string{
				"DATABASE_URL=x", "DATABASE_URL_FILE=x", "PGPASSWORD=x", "PGSERVICEFILE=x", "PGHOST=x", "DATABASE_URLS=x", "PURSER_STORE=bolt",
			}, false, "[DATABASE_URLS=x]",
		},
		{"the collector of spans", []string{"OTEL_EXPORTER_OTLP_HEADERS=x", "OTEL_SERVICE_NAME=x"}, false, "[OTEL_SERVICE_NAME=x]"},
		{"what the configuration refers to", []string{"MY_RPC=x", "MY_RPC_FILE=x", "MY_RPC_2=x", "PATH=x", "LC_ALL=x"}, false, "[MY_RPC_2=x PATH=x LC_ALL=x]"},
		{"capitals matter", []string{"purser_x=1", "Cdp_x=1"}, false, "[purser_x=1 Cdp_x=1]"},
		{"capitals do not", []string{"Purser_Store=postgres", "cdp_x=1", "Database_Url=x", "pgPassword=x", "my_rpc=x", "Path=x"}, true, "[Path=x]"},
	} {
		if got := fmt.Sprint(withoutOwn(c.environ, c.anyCase, "MY_RPC", "PATH", "LC_ALL")); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// The defaults of the shipped Caddyfile are those of the commands.
func TestDefaultProxyURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ bind, port, want string }{
		{"", "", "http://127.0.0.1:8402"},
		{"127.0.0.9", "9000", "http://127.0.0.9:9000"},
		{"0.0.0.0", "", "http://127.0.0.1:8402"},
		{"::", "", "http://[::1]:8402"},
		{"::1", "1", "http://[::1]:1"},
		{"purser.example", "", "http://purser.example:8402"},
		{"a/b", "", ""},
		{"", "x", ""},
	} {
		env := &Env{Getenv: func(name string) string {
			return map[string]string{"PURSER_BIND": c.bind, "PURSER_PORT": c.port}[name]
		}}
		u, err := env.defaultProxyURL()
		if got := fmt.Sprint(u); err == nil && got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%+v: %v, %v", c, u, err)
		}
	}
	text := purser.Caddyfile
	for _, part := range []string{"{$PURSER_PORT:" + DefaultPort + "}", "{$PURSER_BIND:" + DefaultBind + "}", "{$PURSER_ADMIN:" + DefaultAdmin + "|0600}"} {
		if !strings.Contains(text, part) {
			t.Errorf("%s is not in the shipped Caddyfile", part)
		}
	}
}

func TestNotice(t *testing.T) {
	t.Parallel()
	address, zero, some := "0xabc", "0", "1"
	for want, e := range map[string]adminapi.Exec{
		"":               {Address: &address, Balance: &some},
		"balance is 0":   {Address: &address, Balance: &zero, Network: "base"},
		"not known":      {Address: &address, Network: "base"},
		"PURSER_WALLETS": {},
	} {
		got := fundNotice(e)
		if (got == "") != (want == "") || !strings.Contains(got, want) || want != "" && e.Address != nil && !strings.Contains(got, address) {
			t.Errorf("%+v: %q", e, got)
		}
	}
}
