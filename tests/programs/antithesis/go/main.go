// Assertions by Antithesis' SDK for Go. With `wrong`, two of them do not hold.
package main

import (
	"fmt"
	"os"

	"github.com/antithesishq/antithesis-sdk-go/assert"
	"github.com/antithesishq/antithesis-sdk-go/lifecycle"
	"github.com/antithesishq/antithesis-sdk-go/random"
)

func main() {
	lifecycle.SetupComplete(map[string]any{"language": "go"})
	first := random.GetRandom() % 1000
	for number := first; number < first+20; number++ {
		details := map[string]any{"number": number}
		assert.Always(number >= first, "numbers are positive", details)
		assert.Sometimes(number%2 == 0, "some number is even", details)
	}
	assert.Reachable("the end is reached", nil)
	if len(os.Args) > 1 {
		assert.Always(first > 1000, "the first number is negative", nil)
		assert.Unreachable("the program is wrong", nil)
	}
	fmt.Println(first)
}
