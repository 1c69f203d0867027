package installation

import (
	"context"

	"github.com/purserpay/purser/internal/exposure"
)

// exposure tells what the configuration leaves open.
func (e *examination) exposure(context.Context) (found []Finding) {
	for _, f := range exposure.Find(e.Config, e.Getenv) {
		result := Warn
		if f.Fatal {
			result = Fail
		}
		found = append(found, Finding{Check: "exposure", Result: result, Says: f.Says, Do: f.Do})
	}
	if found == nil {
		found = []Finding{{Check: "exposure", Result: OK, Says: "the admin endpoint, the proxy's site, registration and logs are closed to others"}}
	}
	return found
}
