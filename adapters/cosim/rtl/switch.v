// A switch that learns: stores each frame, then sends it to the port where its destination was last heard, or to all others.
//
// Each input has a buffer of its own, a ring of 64-bit words; a frame that does not fit is dropped whole. One frame at a time crosses
// to the outputs, from the inputs in turn. Stations are kept in a table that their address's last bits index.
`default_nettype none

module switch #(
    parameter PORTS = 4,
    parameter DEPTH = 10,   // words of a buffer: 2^DEPTH
    parameter TABLE = 6     // stations: 2^TABLE
) (
    input  wire                  clk,
    input  wire                  rst,
    input  wire [PORTS*64-1:0]   rx_tdata,
    input  wire [PORTS*8-1:0]    rx_tkeep,
    input  wire [PORTS-1:0]      rx_tvalid,
    input  wire [PORTS-1:0]      rx_tlast,
    output wire [PORTS-1:0]      rx_tready,
    output reg  [PORTS*64-1:0]   tx_tdata,
    output reg  [PORTS*8-1:0]    tx_tkeep,
    output reg  [PORTS-1:0]      tx_tvalid,
    output reg  [PORTS-1:0]      tx_tlast,
    input  wire [PORTS-1:0]      tx_tready
);
    // A word is its bytes, which of them there are, and whether it is a frame's last.
    localparam WORD = 64 + 8 + 1;

    wire [PORTS-1:0]      whole;    // there is a complete frame
    wire [PORTS*WORD-1:0] head;     // its next word
    wire [PORTS-1:0]      take;     // that word is taken

    assign rx_tready = {PORTS{1'b1}};

    genvar g;
    generate
        for (g = 0; g < PORTS; g = g + 1) begin : input_buffer
            reg [WORD-1:0] memory [0:(1<<DEPTH)-1];
            reg [DEPTH:0] write, commit, read;    // one bit more tells full from empty
            reg dropping;
            wire [DEPTH:0] used = write - read;
            wire full = used[DEPTH];

            assign whole[g] = commit != read;
            assign head[g*WORD +: WORD] = memory[read[DEPTH-1:0]];

            always @(posedge clk) begin
                if (rst) begin
                    write <= 0;
                    commit <= 0;
                    read <= 0;
                    dropping <= 0;
                end else begin
                    if (rx_tvalid[g]) begin
                        if (full || dropping) begin
                            // What there is of the frame goes.
                            write <= commit;
                            dropping <= !rx_tlast[g];
                        end else begin
                            memory[write[DEPTH-1:0]] <= {rx_tlast[g], rx_tkeep[g*8 +: 8], rx_tdata[g*64 +: 64]};
                            write <= write + 1;
                            if (rx_tlast[g])
                                commit <= write + 1;
                        end
                    end
                    if (take[g])
                        read <= read + 1;
                end
            end
        end
    endgenerate

    // Stations: valid, port, address.
    reg             known   [0:(1<<TABLE)-1];
    reg [7:0]       where   [0:(1<<TABLE)-1];
    reg [47:0]      station [0:(1<<TABLE)-1];

    // The frame that crosses. Its first word is held until the second is there, as the two have both addresses.
    localparam IDLE = 0, FIRST = 1, CROSS = 2;
    reg [1:0]       state;
    reg [7:0]       from, next;
    reg [PORTS-1:0] to;
    reg [63:0]      first_data;
    reg             held;      // the first word waits to be sent
    reg [WORD-1:0]  held_word;

    wire [WORD-1:0] word = head[from*WORD +: WORD];
    // Addresses are sent first byte first.
    wire [47:0] destination = word[47:0];
    wire [47:0] source = {word[31:0], first_data[63:48]};
    wire [TABLE-1:0] destination_index = destination[40 +: TABLE];
    wire [TABLE-1:0] source_index = source[40 +: TABLE];
    wire is_known = known[destination_index] && station[destination_index] == destination && !destination[0];
    wire ready = (tx_tready & to) == to;
    wire [PORTS-1:0] this_one = {{(PORTS-1){1'b0}}, 1'b1} << from;
    wire [PORTS-1:0] others = ~this_one;
    assign take = state == FIRST || (state == CROSS && !held && ready) ? this_one : {PORTS{1'b0}};

    integer n;
    always @(posedge clk) begin
        tx_tvalid <= 0;
        tx_tlast <= 0;
        if (rst) begin
            state <= IDLE;
            from <= 0;
            next <= 0;
            held <= 0;
            for (n = 0; n < (1 << TABLE); n = n + 1)
                known[n] <= 0;
        end else case (state)
            IDLE: begin
                // The first input from `next` on with a frame.
                for (n = PORTS - 1; n >= 0; n = n - 1)
                    if (whole[(next + n) % PORTS]) begin
                        from <= (next + n) % PORTS;
                        state <= FIRST;
                    end
            end
            FIRST: begin
                first_data <= word[63:0];
                held_word <= word;
                if (is_known)
                    to <= ({{(PORTS-1){1'b0}}, 1'b1} << where[destination_index]) & others;
                else
                    to <= others;
                held <= 1;
                state <= CROSS;
            end
            CROSS: begin
                if (held) begin
                    if (!held_word[WORD-1] && !source[0]) begin
                        known[source_index] <= 1;
                        where[source_index] <= from;
                        station[source_index] <= source;
                    end
                    if (ready) begin
                        send(held_word);
                        held <= 0;
                        if (held_word[WORD-1])
                            finish;
                    end
                end else if (ready) begin
                    send(word);
                    if (word[WORD-1])
                        finish;
                end
            end
        endcase
    end

    task send(input [WORD-1:0] what);
        begin
            for (n = 0; n < PORTS; n = n + 1) begin
                tx_tdata[n*64 +: 64] <= what[63:0];
                tx_tkeep[n*8 +: 8] <= what[71:64];
            end
            tx_tvalid <= to;
            tx_tlast <= what[WORD-1] ? to : {PORTS{1'b0}};
        end
    endtask

    task finish;
        begin
            next <= (from + 1) % PORTS;
            state <= IDLE;
        end
    endtask
endmodule
