package attacks

import (
	"context"
	"strings"
	"testing"
)

// The scratch copy has neither the user's admin endpoint nor the names and addresses of the user's
// sites, so that the user's own configuration is judged.
func TestExposureOfTheUsersConfiguration(t *testing.T) {
	t.Parallel()
	const (
		socket = `{"admin":{"listen":"unix//x"},`
		route  = `"apps":{"http":{"servers":{"a":{"listen":["LISTEN"],"routes":[{MATCH"handle":[{"handler":"purser_proxy"},{"handler":"purser_api"}]}]}}}}}`
	)
	config := func(admin, listen, match string) string {
		return admin + strings.NewReplacer("LISTEN", listen, "MATCH", match).Replace(route)
	}
	named := `"match":[{"host":["purser.example"]}],`
	for _, c := range []struct {
		config, admin, variable string
		run                     func(context.Context, *examination) (outcome, error)
		want                    Result
		says                    string
	}{
		{config("{", "127.0.0.1:1", ""), "", "", adminEndpoint, Held, "does not start"},
		{config(`{"admin":{"listen":"127.0.0.1:3"},`, "127.0.0.1:1", ""), "127.0.0.1:3", "on", adminEndpoint, Off, "at 127.0.0.1:3"},
		{config(socket, "127.0.0.1:1", ""), "unix//x", "", adminEndpoint, Held, "unix//x"},
		{config(`{"admin":{"disabled":true},`, "127.0.0.1:1", ""), "off", "", adminEndpoint, Held, "is off"},
		{config(socket, "127.0.0.1:1", named), "", "", foreignHosts, Failed, "foreign host"},
		{config(socket, "0.0.0.0:1", ""), "", "", openProxy, Failed, "stranger's key"},
	} {
		e := &examination{world: &world{config: []byte(c.config), environ: environment{"PURSER_ADMIN_OVER_TCP": c.variable}}}
		e.main = &purser{setup: &setup{yours: yours{admin: c.admin}}}
		got, err := c.run(t.Context(), e)
		if err != nil || got.result != c.want || !strings.Contains(got.says, c.says) || c.want == Failed && len(got.story) == 0 {
			t.Errorf("%s: %+v, %v", c.config, got, err)
		}
	}
}
